# A thin front of CMake: the presets do the work.
.PHONY: build test asan fuzz format check-headers clean

build:
	cmake --preset release && cmake --build --preset release

test:
	scripts/test

asan:
	cmake --preset asan && cmake --build --preset asan && ctest --preset asan -j "$$(nproc)"

fuzz:
	cmake --preset fuzz && cmake --build --preset fuzz

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

check-headers:
	cmake --preset dev && cmake --build --preset dev --target check-headers

clean:
	rm -rf build
