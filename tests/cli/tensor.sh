# Arrays to .dat files: each form, the golden bytes, warnings and refusals; a failure leaves nothing.
g=$CASES/../golden/q4_0
take() { cp "$g/$1.npy" in.npy; }
take normal_64x128
quern tensor in.npy -o o.dat --rounding minmax --percentile 0.99 && cmp o.dat $g/normal_64x128.p0.99.ggml.dat && echo same
quern tensor in.npy -o o.dat --format q4_0-legacy --rounding minmax && cmp o.dat $g/normal_64x128.p1.0.legacy.dat && echo same
quern tensor in.npy -o o.dat
quern tensor in.npy -o o.dat --rounding mse
quern tensor in.npy -o o.dat --rounding mse --bits 2
quern tensor in.npy -o o.dat --format q8_1
quern tensor in.npy -o o.dat --format i8 --bits 5
quern tensor in.npy -o o.dat --format f16
quern tensor in.npy -o o.dat --format f32
quern tensor in.npy -o o.dat --format i8 --json
ls; rm o.*
take tiny_4x32
quern tensor in.npy -o o.dat; echo "status $?"
"$PYTHON" - <<'P'
import struct
head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 32), }\n"
for name, value in (("nan", float("nan")), ("large", 1e6)):
    open(name + ".npy", "wb").write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + struct.pack("<64f", *[1.0] * 40, value, *[1.0] * 23))
P
rm o.dat
quern tensor nan.npy -o o.dat; echo "status $?"
quern tensor large.npy -o o.dat; echo "status $?"
quern tensor large.npy -o o.dat --format f16; echo "status $?"
quern tensor nan.npy -o no/such/o.dat --format f32; echo "status $?"
quern tensor absent.npy -o o.dat; echo "status $?"
ls
quern tensor in.npy; echo "status $?"
quern tensor in.npy -o o.dat --format q4; echo "status $?"
quern tensor in.npy -o o.dat --rounding none; echo "status $?"
quern tensor in.npy -o o.dat --format f16 --rounding mse; echo "status $?"
quern tensor in.npy -o o.dat --percentile 0.9; echo "status $?"
quern tensor in.npy -o o.dat --percentile 0; echo "status $?"
quern tensor in.npy -o o.dat --bits 5; echo "status $?"
quern tensor in.npy -o o.dat --format q8_1 --bits 5; echo "status $?"
ls
