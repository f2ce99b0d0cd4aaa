// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/netip"
	"time"
)

// Status is the result of status and what `ovpn-xdp status --json` prints.
// Fields are only ever added. Counters start with the process, except those
// of a NIC, which start when it is attached.
type Status struct {
	Version int `json:"version"`
	// Name is the gateway's, Software the version of the program.
	Name     string `json:"name"`
	Software string `json:"software"`
	PID      int    `json:"pid"`
	Dev      string `json:"dev"`
	// MTU is the inner MTU in bytes.
	MTU int `json:"mtu"`
	// MSSFix is the largest inner TCP packet in bytes that SYNs allow; 0: MSS
	// not clamped.
	MSSFix        int        `json:"mssfix"`
	P2P           bool       `json:"p2p"`
	Mode          string     `json:"mode"`
	Started       time.Time  `json:"started"`
	UptimeSeconds int64      `json:"uptime_seconds"`
	Listeners     []Listener `json:"listeners"`
	NICs          []NIC      `json:"nics"`
	Tun           Tun        `json:"tun"`
	UDP           UDP        `json:"udp"`
	Workers       []Worker   `json:"workers"`
	Totals        Totals     `json:"totals"`
	Peers         []Peer     `json:"peers"`
}

// Listener is one socket that clients send to.
type Listener struct {
	// Transport is "udp" or "tcp". Records on TCP do not use AF_XDP.
	Transport string         `json:"transport"`
	Addr      netip.AddrPort `json:"addr"`
	// Local are the addresses a wildcard stands for at the moment.
	Local []netip.Addr `json:"local,omitempty"`
}

// NIC is a device the gateway was told to use.
type NIC struct {
	Name string `json:"name"`
	// Rung is the one in use; "socket" when nothing is attached.
	Rung string `json:"rung"`
	// XDPMode is "native", "generic" or "" (no XDP program on this NIC).
	XDPMode string `json:"xdp_mode"`
	// TCHook is "tcx" or "clsact" on the tc rung, else "".
	TCHook string `json:"tc_hook,omitempty"`
	// Copy: the kernel copies every frame into the UMEM.
	Copy bool `json:"copy"`
	// Queues is the number of receive queues bound, MissingQueues those that
	// are not: their records take the socket.
	Queues        int   `json:"queues"`
	MissingQueues []int `json:"missing_queues"`
	// WhyNotHigher says why no higher rung is in use; "" on the highest.
	WhyNotHigher string `json:"why_not_higher"`
	// Pins is the folder of the pinned maps; "" when nothing is attached.
	Pins string `json:"pins"`
	// State is "attached", "detached" (on request), "absent" (no device of
	// this name) or "down".
	State string `json:"state"`
	// ChunkSize is the size in bytes of one UMEM chunk.
	ChunkSize int `json:"chunk_size,omitempty"`
	// Verdicts are those of the BPF program, by reason.
	Verdicts map[string]Verdict `json:"verdicts"`
	Rings    []Ring             `json:"rings"`
}

// States of a NIC.
const (
	NICAttached = "attached"
	NICDetached = "detached"
	NICAbsent   = "absent"
	NICDown     = "down"
)

// Verdict counts the frames that left the BPF program for one reason.
type Verdict struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Ring is one AF_XDP socket.
type Ring struct {
	Queue    int  `json:"queue"`
	ZeroCopy bool `json:"zerocopy"`
	// Received counts frames leased.
	Received uint64 `json:"received"`
	// RingFull, FillEmpty and Dropped are frames lost: since the ring was full,
	// no chunk was left, or for another cause. Each is in one of them only.
	RingFull  uint64 `json:"ring_full"`
	FillEmpty uint64 `json:"fill_empty"`
	Dropped   uint64 `json:"dropped"`
}

// Tun is the state of the TUN device.
type Tun struct {
	Queues int `json:"queues"`
	// TSO and USO: super-packets of TCP and of UDP are exchanged.
	TSO bool `json:"tso"`
	USO bool `json:"uso"`
	// Why says what switched an offload off; "" when nothing did.
	Why string `json:"why,omitempty"`
}

// UDP is the state of the listeners' offloads.
type UDP struct {
	GSO bool `json:"gso"`
	GRO bool `json:"gro"`
	// Why says what switched an offload off; "" when nothing did.
	Why string `json:"why,omitempty"`
}

// Worker is one thread of the data path.
type Worker struct {
	// Name is "in", "out", "socket" or "stream" (TCP) with a number.
	Name string `json:"name"`
	// NIC and Queue are where an AF_XDP worker reads.
	NIC   string `json:"nic,omitempty"`
	Queue int    `json:"queue"`
	// Bursts counts wake-ups that found something, Records what they found.
	Bursts  uint64 `json:"bursts"`
	Records uint64 `json:"records"`
}

// Totals are the sums over all NICs, listeners and peers.
type Totals struct {
	In  TotalsIn  `json:"in"`
	Out TotalsOut `json:"out"`
	// Drops holds every reason for which user space and the rings drop, also
	// those that are zero.
	Drops map[string]uint64 `json:"drops"`
	// Control counts datagrams on the listeners that are not DATA_V2.
	Control Control `json:"control"`
}

// TotalsIn is the way from the network to the TUN. Steered + Socket + Stream =
// Delivered + Keepalive + C2C + the drops of this way + InFlight.
type TotalsIn struct {
	// Steered, Socket and Stream (TCP) count records by the way they came.
	Steered uint64 `json:"steered"`
	Socket  uint64 `json:"socket"`
	Stream  uint64 `json:"stream"`
	// C2C and C2CBytes count inner packets handed to another peer inside the gateway.
	C2C      uint64 `json:"c2c"`
	C2CBytes uint64 `json:"c2c_bytes"`
	// Batches counts groups of records opened together; MeanBatch is records
	// per batch.
	Batches   uint64  `json:"batches"`
	MeanBatch float64 `json:"mean_batch"`
	// Delivered counts inner packets written to the TUN.
	Delivered      uint64 `json:"delivered"`
	DeliveredBytes uint64 `json:"delivered_bytes"`
	TunWrites      uint64 `json:"tun_writes"`
	Keepalive      uint64 `json:"keepalive"`
	InFlight       uint64 `json:"in_flight"`
	// Drops are this way's, without those that are zero.
	Drops map[string]uint64 `json:"drops"`
	// FloatsRefused counts batches of authentic records from an address to
	// which their peer was not let move; the records were delivered.
	FloatsRefused uint64 `json:"floats_refused"`
	// Rungs splits records by the rung that carried them.
	Rungs map[string]RungCount `json:"rungs"`
}

// RungCount counts what came by one rung.
type RungCount struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"`
	Batches uint64 `json:"batches"`
}

// TotalsOut is the way from the TUN to the network.
type TotalsOut struct {
	// Packets and Bytes count inner packets.
	Packets  uint64 `json:"packets"`
	Bytes    uint64 `json:"bytes"`
	TunReads uint64 `json:"tun_reads"`
	// Sends counts messages given to sendmmsg, each a whole run of records.
	Sends     uint64 `json:"sends"`
	Keepalive uint64 `json:"keepalive"`
	// Drops are this way's, without those that are zero.
	Drops map[string]uint64 `json:"drops"`
}

// Control counts datagrams for the control channel.
type Control struct {
	Datagrams uint64 `json:"datagrams"`
	Bytes     uint64 `json:"bytes"`
	// Dropped were refused because the queue was full or nobody listens.
	Dropped uint64 `json:"dropped"`
	// Sent counts datagrams of the control channel's, Lost those that the socket
	// did not take; packets on TCP are in neither.
	Sent uint64 `json:"sent"`
	Lost uint64 `json:"lost"`
}
