# Flags that every target of ours is built with.
add_library(quern_flags INTERFACE)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # POSIX: mmap, symlink checks
set(CMAKE_C_VISIBILITY_PRESET hidden)
target_compile_definitions(quern_flags INTERFACE _GNU_SOURCE)
# -ffp-contract=off: the same bytes whatever the machine fuses
target_compile_options(quern_flags INTERFACE -ffp-contract=off -fno-math-errno)
if(QUERN_DEVELOPER)
  target_compile_options(quern_flags INTERFACE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wold-style-definition -Wvla -Wwrite-strings -Wformat=2 -Wpointer-arith -Wundef -Wcast-qual)
endif()
if(QUERN_DEVELOPER)
  # gcc 12 does not see that an output is set whenever QN_TRY goes on
  target_compile_options(quern_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(QUERN_SANITIZE)
  target_compile_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE})
endif()
