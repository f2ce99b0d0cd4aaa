// SPDX-License-Identifier: Apache-2.0

// Package config holds the options of a gateway, their defaults and their
// rules. It opens nothing and reads no file: what it says about an option
// is true without asking the kernel.
package config

import (
	"log/slog"
	"net/netip"
)

// Defaults of a gateway's options.
const (
	// DefaultPort is OpenVPN's port as registered with IANA.
	DefaultPort = 1194
	// DefaultDev is the TUN device when none is named.
	DefaultDev = "tun0"
	// DefaultMTU is the inner MTU in bytes: with 24 bytes of record overhead
	// and 48 of IPv6 and UDP the outer packet has 1492 bytes, which fits
	// PPPoE's MTU exactly.
	DefaultMTU = 1420
	// DefaultRingSize is the number of descriptors of every AF_XDP ring:
	// 2.4 ms of full-length records at 10 Gbit/s; with two chunks of 2048
	// bytes for each, a queue's UMEM has 8 MiB.
	DefaultRingSize = 2048
	// DefaultBatch is the most records one batch holds.
	DefaultBatch = 64
	// DefaultPrefetch is how many records ahead of the one being opened are
	// brought into the cache.
	DefaultPrefetch = 2
	// DefaultPinDir is the BPF file system below which maps are pinned.
	DefaultPinDir = "/sys/fs/bpf"
	// DefaultStateDir keeps what has to survive a restart: key fingerprints.
	DefaultStateDir = "/var/lib/ovpn-xdp"
	// DefaultRunDir holds admin sockets and locks.
	DefaultRunDir = "/run/ovpn-xdp"
)

// Rungs: the ways by which records reach the workers, and ModeAuto.
const (
	ModeAuto       = "auto"
	ModeZeroCopy   = "xdp-zerocopy"
	ModeXDP        = "xdp"
	ModeTC         = "tc"
	ModeSocket     = "socket"
	ModeXDPGeneric = "xdp-generic"
)

// Values of Run.MSSFix that are not a size.
const (
	// MSSFixAuto clamps to the inner MTU.
	MSSFixAuto = 0
	// MSSFixOff leaves the MSS option alone.
	MSSFixOff = -1
)

// ClientToClient is a way to treat packets between peers.
type ClientToClient uint8

// The ways.
const (
	ToHost    ClientToClient = iota // the host routes and filters them
	Inside                          // they stay inside the gateway
	ToNowhere                       // they are dropped
)

// Log formats.
const (
	LogText = "text"
	LogJSON = "json"
)

// Run is everything `ovpn-xdp run` can be told. Complete fills in what was
// left out and Validate checks the rest; a gateway is started with a Run that
// went through both.
type Run struct {
	// Name tells gateways of one host apart; it names the admin socket, the
	// lock and the folder of the pins. Default: Dev.
	Name string
	// NICs are the devices to attach to, in order. None: socket rung only.
	NICs []string
	// Listen are the UDP endpoints, IPv4 never in mapped form. An unspecified
	// address is a wildcard of its own family only. Default: both wildcards
	// on DefaultPort.
	Listen []netip.AddrPort
	// ListenTCP are the TCP endpoints, in the same form. Only a gateway with a control
	// channel has any.
	ListenTCP []netip.AddrPort
	// RcvBuf and SndBuf are the outer sockets' buffers in bytes; 0: the default.
	RcvBuf, SndBuf int
	// ClientToClient says what becomes of packets from one peer to another.
	ClientToClient ClientToClient
	// Dev is the name of the TUN device, 1 to 15 bytes.
	Dev string
	// Addresses are set on the TUN device, with their prefix lengths.
	Addresses []netip.Prefix
	// Mode is ModeAuto or one rung, for every NIC.
	Mode string
	// P2P: one peer, to which everything is routed and whose inner sources
	// are not checked.
	P2P bool
	// Mark is the SO_MARK of outer packets; 0: none.
	Mark uint32
	// MTU is the inner MTU in bytes, 68..65451.
	MTU int
	// RingSize is the number of descriptors of every AF_XDP ring, 64..32768,
	// a power of two after Complete.
	RingSize int
	// Queues are the receive queues to bind, ascending. None: all.
	Queues []int
	// PinDir is the BPF file system below which maps are pinned.
	PinDir string
	// ReadyFile is written once traffic can flow. "": none.
	ReadyFile string

	// NoTunOffload reads and writes the TUN one packet at a time.
	NoTunOffload bool
	// NoUDPGSO sends each record by itself.
	NoUDPGSO bool
	// NoUDPGRO receives each record by itself on the socket rung.
	NoUDPGRO bool
	// Batch is the most records opened under one key lookup, merged or sent together,
	// 1..64; 1: each by itself from receive to send.
	Batch int
	// Prefetch is how many records ahead are brought into the cache, 0..64;
	// 0: none.
	Prefetch int
	// MSSFix is MSSFixAuto, MSSFixOff, or the largest inner TCP packet in
	// bytes, 256..65535. See ClampSize.
	MSSFix int
	// Workers is the number of outward workers, each with a TUN queue of its
	// own, 1..64. 0: one for each CPU this process may use, at most 8.
	Workers int

	// StateDir keeps key fingerprints across restarts, host-wide.
	StateDir string
	// RunDir holds the admin socket and the lock.
	RunDir string

	// LogLevel is the least level that is logged.
	LogLevel slog.Level
	// LogFormat is LogText or LogJSON.
	LogFormat string
	// Software is the version of the program, for `status`.
	Software string
}

// Defaults returns the options of a gateway started without any flag.
func Defaults() Run {
	return Run{
		Dev:       DefaultDev,
		Mode:      ModeAuto,
		MTU:       DefaultMTU,
		RingSize:  DefaultRingSize,
		PinDir:    DefaultPinDir,
		Batch:     DefaultBatch,
		Prefetch:  DefaultPrefetch,
		StateDir:  DefaultStateDir,
		RunDir:    DefaultRunDir,
		LogLevel:  slog.LevelInfo,
		LogFormat: LogText,
	}
}

// SocketPath returns the path of the admin socket.
func (r *Run) SocketPath() string { return r.RunDir + "/" + r.Name + ".sock" }

// LockPath returns the path of the file whose flock makes Name exclusive.
func (r *Run) LockPath() string { return r.RunDir + "/" + r.Name + ".lock" }

// ClampSize returns the size in bytes of the largest inner TCP packet that
// the MSS of passing SYNs allows; 0 when the MSS is left alone. The MSS is 40
// less for IPv4 and 60 less for IPv6: fixed headers without options
// (RFC 6691).
func (r *Run) ClampSize() int {
	switch r.MSSFix {
	case MSSFixOff:
		return 0
	case MSSFixAuto:
		return r.MTU
	default:
		return r.MSSFix
	}
}
