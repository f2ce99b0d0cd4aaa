// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

// Gateway returns the options of the gateway that the configuration describes:
// what `ovpn-xdp run` is told by flags without one. Names behind `local` are resolved.
// Complete and Validate are left to the caller.
func (s *Server) Gateway(ctx context.Context) (config.Run, error) {
	r := config.Defaults()
	x := &s.XDP
	r.Name, r.NICs, r.Queues = x.Name, x.NICs, x.Queues
	r.Dev = s.Tunnel.Dev
	if r.Dev == "" {
		r.Dev = freeDevice()
	}
	r.MTU, r.Mark, r.RcvBuf, r.SndBuf = s.Tunnel.MTU, s.Socket.Mark, s.Socket.RcvBuf, s.Socket.SndBuf
	setIf(&r.Mode, x.Mode)
	setIf(&r.RingSize, x.RingSize)
	setIf(&r.Batch, x.Batch)
	setIf(&r.Workers, x.Workers)
	setIf(&r.PinDir, x.PinDir)
	setIf(&r.StateDir, x.StateDir)
	setIf(&r.RunDir, x.RunDir)
	setIf(&r.ReadyFile, x.ReadyFile)
	setIf(&r.LogFormat, x.LogFormat)
	if x.Prefetch != nil {
		r.Prefetch = *x.Prefetch
	}
	r.NoTunOffload, r.NoUDPGSO, r.NoUDPGRO = x.NoTunOffload, x.NoUDPGSO, x.NoUDPGRO
	for _, n := range []Network{s.Network4, s.Network6} {
		if n.Own.IsValid() {
			r.Addresses = append(r.Addresses, netip.PrefixFrom(n.Own, n.Prefix.Bits()))
		}
	}
	switch {
	case s.Clients.BlockToClient:
		r.ClientToClient = config.ToNowhere
	case s.Clients.ToClient:
		r.ClientToClient = config.Inside
	}
	r.LogLevel = s.Log.Level()
	outer6, tcp := false, false
	for _, l := range s.Listen {
		addrs, err := l.resolve(ctx)
		if err != nil {
			return r, err
		}
		for _, a := range addrs {
			at := netip.AddrPortFrom(a, l.Port)
			outer6 = outer6 || a.Is6()
			if l.TCP {
				r.ListenTCP = append(r.ListenTCP, at)
				tcp = true
			} else {
				r.Listen = append(r.Listen, at)
			}
		}
	}
	r.MSSFix = config.MSSFixOff
	if n := s.Tunnel.MSSFix.InnerSize(outer6, tcp); n > 0 {
		r.MSSFix = min(n, r.MTU)
	}
	return r, nil
}

func setIf[T comparable](to *T, from T) {
	var zero T
	if from != zero {
		*to = from
	}
}

// resolve returns the addresses to listen on.
func (l *Listen) resolve(ctx context.Context) ([]netip.Addr, error) {
	if l.Addr.IsValid() {
		return []netip.Addr{l.Addr}, nil
	}
	network := "ip"
	switch l.Proto {
	case "udp4", "tcp4-server":
		network = "ip4"
	case "udp6", "tcp6-server":
		network = "ip6"
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, l.Host)
	if err != nil {
		return nil, fmt.Errorf("%s: resolve %s: %w", l.Line.Position(), l.Host, err)
	}
	return []netip.Addr{addrs[0].Unmap()}, nil
}

// freeDevice returns the first tunN that no device is called.
func freeDevice() string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("tun%d", n)
		if _, err := net.InterfaceByName(name); err != nil {
			return name
		}
	}
}
