// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL of linux/membarrier.h.
const membarrierGlobal = 1

// waitForReaders returns when every BPF program that was running has finished,
// and with it the NAPI poll it ran in: that is when a redirected frame is in its
// socket's ring. XDP and tc run with bottom halves off, which RCU counts as a
// reader, and the global membarrier waits for one RCU grace period, about 5 ms.
func waitForReaders() error {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno == 0 {
		return nil
	}
	// Kernels with nohz_full CPUs refuse the global command.
	return waitByMapUpdate()
}

// waitByMapUpdate uses that replacing an inner map makes the kernel wait until no
// program can still see the old one, which is the same grace period.
func waitByMapUpdate() error {
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	m, err := ebpf.NewMap(inner)
	if err != nil {
		return fmt.Errorf("wait for readers: %w", explain(err))
	}
	defer m.Close()
	outer, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner})
	if err != nil {
		return fmt.Errorf("wait for readers: %w", explain(err))
	}
	defer outer.Close()
	if err := outer.Put(uint32(0), m); err != nil {
		return fmt.Errorf("wait for readers: %w", err)
	}
	return nil
}
