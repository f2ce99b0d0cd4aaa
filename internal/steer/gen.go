// SPDX-License-Identifier: Apache-2.0

package steer

// Both supported architectures are little endian: one object serves them. clang
// ignores the include folder of the other architecture. The sizes and offsets of
// the generated types are checked by a test, the reasons against pkg/reason.

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -mcpu=v3 -Wall -Werror" -type reason -type peer_state -type endpoint -type listener -type peer -type peer_traffic -type tally -type control_state ingress ../../bpf/xdp_ingress.bpf.c -- -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -mcpu=v3 -Wall -Werror" -no-global-types tc ../../bpf/tc_ingress.bpf.c -- -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -mcpu=v3 -Wall -Werror" -type handover_fate -type handover_tally handover ../../bpf/handover.bpf.c -- -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -mcpu=v3 -Wall -Werror" -type route4_key -type route6_key tunQueue ../../bpf/tun_queue.bpf.c -- -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
