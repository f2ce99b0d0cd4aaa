// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
)

// Verdict is how often the program on the device gave a reason, over all CPUs.
type Verdict struct {
	Reason  reason.Reason
	Packets uint64
	Bytes   uint64 // of whole frames, Ethernet header included
}

// nameVerdicts writes each reason into its own entry, so that bpftool prints its
// name beside the counters. It runs before the program does.
func nameVerdicts(m *ebpf.Map) error {
	values, err := perCPU[ingressTally]()
	if err != nil {
		return err
	}
	for r := range uint32(reason.ProgramCount) {
		for i := range values {
			values[i] = ingressTally{Reason: ingressReason(r)}
		}
		if err := m.Put(r, values); err != nil {
			return fmt.Errorf("prepare verdicts: %w", err)
		}
	}
	return nil
}

func readVerdicts(m *ebpf.Map) ([]Verdict, error) {
	values, err := perCPU[ingressTally]()
	if err != nil {
		return nil, err
	}
	out := make([]Verdict, reason.ProgramCount)
	for r := range out {
		if err := m.Lookup(uint32(r), &values); err != nil {
			return nil, fmt.Errorf("read verdicts: %w", err)
		}
		out[r].Reason = reason.Reason(r)
		for i := range values {
			out[r].Packets += values[i].Packets
			out[r].Bytes += values[i].Bytes
		}
	}
	return out, nil
}

func nameHandover(m *ebpf.Map) error {
	values, err := perCPU[handoverHandoverTally]()
	if err != nil {
		return err
	}
	for fate := range handoverHandoverFateHANDOVER_COUNT {
		for i := range values {
			values[i] = handoverHandoverTally{Fate: fate}
		}
		if err := m.Put(uint32(fate), values); err != nil {
			return fmt.Errorf("prepare handover counters: %w", err)
		}
	}
	return nil
}

// readHandover is the number of frames that arrived at the far end of the pair,
// and how many of them no socket took.
func readHandover(m *ebpf.Map) (arrived, refused uint64, err error) {
	values, err := perCPU[handoverHandoverTally]()
	if err != nil {
		return 0, 0, err
	}
	for fate := range handoverHandoverFateHANDOVER_COUNT {
		if err := m.Lookup(uint32(fate), &values); err != nil {
			return 0, 0, fmt.Errorf("read handover counters: %w", err)
		}
		for i := range values {
			arrived += values[i].Packets
			if fate == handoverHandoverFateHANDOVER_NO_SOCKET {
				refused += values[i].Packets
			}
		}
	}
	return arrived, refused, nil
}

// perCPU makes a value for each possible CPU, which is what a per-CPU map takes.
func perCPU[T any]() ([]T, error) {
	n, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	return make([]T, n), nil
}
