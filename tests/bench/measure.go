// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// sample is one measurement. Processor times are seconds per 1e9 bytes of
// TCP payload that arrived.
type sample struct {
	cell
	Gbps        float64 `json:"gbps"` // 1e9 bits of TCP payload per second, at the receiver
	Retransmits float64 `json:"retransmits"`
	Machine     float64 `json:"machine_s_per_gb"` // both ends, iperf3 included
	Softirq     float64 `json:"softirq_s_per_gb"` // part of Machine
	GatewayA    float64 `json:"gateway_a_s_per_gb"`
	GatewayB    float64 `json:"gateway_b_s_per_gb"`
	Iperf       float64 `json:"iperf3_s_per_gb"` // client and server
	Cores       float64 `json:"cores_busy"`
}

// measureSetup lays a bed, starts the contender in it and measures every cell.
// Samples taken before an error are returned with it.
func measureSetup(ctx context.Context, env *environment, s setup, cells []cell, seconds int) (samples []sample, err error) {
	b, err := newBed()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.lab.Close()) }()
	t, err := s.start(env, b)
	if err != nil {
		return nil, err
	}
	if err := b.reach(t); err != nil {
		return nil, err
	}
	server, err := start(b.b, "iperf3", "--server", "--bind", t.target.String())
	if err != nil {
		return nil, err
	}
	if err := await(5*time.Second, func() error { return command(b.b, "sh", "-c", "ss -Hltn 'sport = :5201' | grep -q .") }); err != nil {
		return nil, errors.Join(err, alive(server))
	}
	for _, c := range cells {
		if ctx.Err() != nil {
			return samples, ctx.Err()
		}
		from := b.a
		if c.Topology == forwarded {
			from = b.h
		}
		one, err := measure(from, t, server, c, seconds)
		if err != nil {
			return samples, fmt.Errorf("%s, %d flows, %s: %w", c.Topology, c.Flows, c.Direction, err)
		}
		samples = append(samples, one)
	}
	return samples, nil
}

// clock is a reading of everything whose time is counted.
type clock struct {
	at              time.Time
	machine         cpu
	a, b, iperfPeer float64
}

func readClock(t *tunnel, server *testlab.Process) (c clock, err error) {
	var errs [4]error
	c.at = time.Now()
	c.machine, errs[0] = readCPU()
	c.a, errs[1] = processSeconds(t.a)
	c.b, errs[2] = processSeconds(t.b)
	c.iperfPeer, errs[3] = processSeconds(server)
	return c, errors.Join(errs[:]...)
}

func measure(from *testlab.Namespace, t *tunnel, server *testlab.Process, c cell, seconds int) (sample, error) {
	args := []string{"--client", t.target.String(), "--json", "--zerocopy", "--congestion", "cubic",
		"--time", strconv.Itoa(seconds), "--parallel", strconv.Itoa(c.Flows)}
	if c.Direction == down {
		args = append(args, "--reverse")
	}
	client := from.Command("iperf3", args...)
	var out, said bytes.Buffer
	client.Stdout, client.Stderr = &out, &said
	before, err := readClock(t, server)
	if err != nil {
		return sample{}, err
	}
	if err := client.Start(); err != nil {
		return sample{}, err
	}
	// A tunnel that died leaves iperf3 waiting for TCP to give up.
	watchdog := time.AfterFunc(time.Duration(seconds+20)*time.Second, func() { _ = client.Process.Kill() })
	err = client.Wait()
	watchdog.Stop()
	after, clockErr := readClock(t, server)
	if err != nil || clockErr != nil {
		return sample{}, errors.Join(err, clockErr, errors.New(lastLines(out.String()+said.String(), 4)))
	}
	var result struct {
		End struct {
			Sent struct {
				Retransmits float64 `json:"retransmits"`
			} `json:"sum_sent"`
			Received struct {
				Bytes         float64 `json:"bytes"`
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		return sample{}, fmt.Errorf("read iperf3's result: %w", err)
	}
	if result.Error != "" || result.End.Received.Bytes == 0 {
		return sample{}, fmt.Errorf("iperf3: %q, %.0f bytes arrived", result.Error, result.End.Received.Bytes)
	}
	gb := result.End.Received.Bytes / 1e9
	clientSeconds := (client.ProcessState.UserTime() + client.ProcessState.SystemTime()).Seconds()
	return sample{
		cell:        c,
		Gbps:        result.End.Received.BitsPerSecond / 1e9,
		Retransmits: result.End.Sent.Retransmits,
		Machine:     (after.machine.busy - before.machine.busy) / gb,
		Softirq:     (after.machine.softirq - before.machine.softirq) / gb,
		GatewayA:    (after.a - before.a) / gb,
		GatewayB:    (after.b - before.b) / gb,
		Iperf:       (after.iperfPeer - before.iperfPeer + clientSeconds) / gb,
		Cores:       (after.machine.busy - before.machine.busy) / after.at.Sub(before.at).Seconds(),
	}, nil
}
