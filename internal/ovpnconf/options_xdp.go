// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

func xdpOptions() []OptionDoc {
	t := TopicXDP
	return []OptionDoc{
		{Name: "xdp-nic", Topic: t, Args: "DEVICE...", Min: 1, Max: maxArgs - 1, read: readNICs, Text: "network devices whose traffic is steered into AF_XDP sockets; may repeat. Without one, records arrive by the UDP socket"},
		{Name: "xdp-mode", Topic: t, Args: strings.Join(config.Modes(), "|"), Min: 1, Max: 1, read: oneOf(strings.Join(config.Modes(), " "), func(c *Common) *string { return &c.XDP.Mode }),
			Text: "rung to take or fail; auto, the default, takes the first that works and never xdp-generic"},
		{Name: "xdp-queues", Topic: t, Args: "LIST", Min: 1, Max: 1, read: readQueues, Text: "receive queues to bind, such as 0,2-3; default all"},
		{Name: "xdp-ring-size", Topic: t, Args: "N", Min: 1, Max: 1, read: number(64, 32768, func(c *Common) *int { return &c.XDP.RingSize }),
			Text: fmt.Sprintf("descriptors of every AF_XDP ring, rounded up to a power of two, default %d", config.DefaultRingSize)},
		{Name: "xdp-batch", Topic: t, Args: "N", Min: 1, Max: 1, read: number(1, 64, func(c *Common) *int { return &c.XDP.Batch }),
			Text: fmt.Sprintf("most records opened, merged or sent together, default %d", config.DefaultBatch)},
		{Name: "xdp-prefetch", Topic: t, Args: "N", Min: 1, Max: 1, read: readPrefetch, Text: fmt.Sprintf("how many records ahead are prefetched, 0 to 64, default %d", config.DefaultPrefetch)},
		{Name: "xdp-workers", Topic: t, Args: "N", Min: 1, Max: 1, read: number(0, 64, func(c *Common) *int { return &c.XDP.Workers }), Text: "outward workers, each with a TUN queue; 0, the default, is one for each CPU, at most 8"},
		{Name: "xdp-block-client-to-client", Topic: t, read: toggle(func(s *Server) *bool { return &s.Clients.BlockToClient }), Text: "drops packets between clients; not together with client-to-client"},
		{Name: "xdp-no-tun-offload", Topic: t, read: toggle(func(c *Common) *bool { return &c.XDP.NoTunOffload }), Text: "exchanges single packets with the TUN device instead of super-packets"},
		{Name: "xdp-no-udp-gso", Topic: t, read: toggle(func(c *Common) *bool { return &c.XDP.NoUDPGSO }), Text: "sends every record by itself"},
		{Name: "xdp-no-udp-gro", Topic: t, read: toggle(func(c *Common) *bool { return &c.XDP.NoUDPGRO }), Text: "receives every record by itself on the socket"},
		{Name: "xdp-name", Topic: t, Args: "NAME", Min: 1, Max: 1, read: readName, Text: "the gateway's name in commands, default the device's"},
		{Name: "xdp-run-dir", Topic: t, Args: "DIR", Min: 1, Max: 1, read: pathAt(func(c *Common) *string { return &c.XDP.RunDir }), Text: "folder of admin sockets and locks, default " + config.DefaultRunDir},
		{Name: "xdp-state-dir", Topic: t, Args: "DIR", Min: 1, Max: 1, read: pathAt(func(c *Common) *string { return &c.XDP.StateDir }), Text: "folder of what outlives a restart, default " + config.DefaultStateDir},
		{Name: "xdp-pin-dir", Topic: t, Args: "DIR", Min: 1, Max: 1, read: pathAt(func(c *Common) *string { return &c.XDP.PinDir }), Text: "BPF file system for pinned maps, default " + config.DefaultPinDir},
		{Name: "xdp-ready-file", Topic: t, Args: "FILE", Min: 1, Max: 1, read: pathAt(func(c *Common) *string { return &c.XDP.ReadyFile }), Text: "file that is written once traffic can flow"},
		{Name: "xdp-log-format", Topic: t, Args: "text|json", Min: 1, Max: 1, read: oneOf("text json", func(c *Common) *string { return &c.XDP.LogFormat }), Text: "form of the log, default text"},
	}
}

func readNICs(r *reader, l Line) answer {
	for _, n := range l.Args {
		if err := config.ValidateDevice(n); err != nil {
			return refuse("give the name that `ip link` shows", "%q is not a name the kernel takes", printable(n))
		}
		if slices.Contains(r.c.XDP.NICs, n) {
			continue // in the file and on the command line
		}
		r.c.XDP.NICs = append(r.c.XDP.NICs, n)
	}
	return fine
}

func readQueues(r *reader, l Line) answer {
	q, err := config.ParseQueues(l.Args[0])
	if err != nil {
		return refuse("write a list such as 0,2-3", "%v", err)
	}
	r.c.XDP.Queues = q
	return fine
}

func readPrefetch(r *reader, l Line) answer {
	n, err := parseInt(l.Args[0], 0, 64)
	if err != nil {
		return refuse("give a number from 0 to 64", "%v", err)
	}
	p := int(n)
	r.c.XDP.Prefetch = &p
	return fine
}

func readName(r *reader, l Line) answer {
	if err := config.ValidateName(l.Args[0]); err != nil {
		return refuse("give 1 to 15 letters, digits, '-' or '_'", "%q is no name", printable(l.Args[0]))
	}
	r.c.XDP.Name = l.Args[0]
	return fine
}
