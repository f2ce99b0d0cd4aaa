// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// ticksPerSecond is USER_HZ, the unit of /proc, 100 on every architecture Go's Linux ports serve here.
const ticksPerSecond = 100

// cpu is processor time of the whole machine in seconds since boot.
type cpu struct{ busy, softirq float64 }

// readCPU reads the first line of /proc/stat. Waiting for a disk is idle time;
// a guest's time is part of user time already.
func readCPU() (cpu, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpu{}, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	// cpu user nice system idle iowait irq softirq steal ...
	if len(fields) < 9 || fields[0] != "cpu" {
		return cpu{}, fmt.Errorf("read /proc/stat: %q", line)
	}
	var seconds [9]float64
	for i := 1; i < len(seconds); i++ {
		ticks, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return cpu{}, fmt.Errorf("read /proc/stat: %w", err)
		}
		seconds[i] = float64(ticks) / ticksPerSecond
	}
	user, nice, system, irq, softirq := seconds[1], seconds[2], seconds[3], seconds[6], seconds[7]
	return cpu{busy: user + nice + system + irq + softirq, softirq: softirq}, nil
}

// background is how many cores are busy with other things: what a report read
// later should not leave the reader wondering about.
func background() (cores float64, err error) {
	before, err := readCPU()
	if err != nil {
		return 0, err
	}
	const watched = 2 * time.Second
	time.Sleep(watched)
	after, err := readCPU()
	return (after.busy - before.busy) / watched.Seconds(), err
}

// processSeconds is the processor time of all threads of a process, ended ones
// too. What the kernel did in its context by the way, such as softirq work that
// ran there, is in it.
func processSeconds(p *testlab.Process) (float64, error) {
	if p == nil {
		return 0, nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything, so fields are counted from behind it:
	// state is the first, utime and stime are the 12th and 13th.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("read /proc/%d/stat: %q", p.PID(), stat)
	}
	var ticks uint64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/%d/stat: %w", p.PID(), err)
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}
