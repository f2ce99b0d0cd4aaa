// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// fixed are the settings that sockets, devices and pools are made of: they stay as
// they are while the gateway runs.
func fixed(s *ovpnconf.Server) map[string]any {
	listen := make([]ovpnconf.Listen, len(s.Listen))
	for i, l := range s.Listen {
		l.Line = ovpnconf.Line{}
		listen[i] = l
	}
	routes := make([]ovpnconf.Route, len(s.Routes))
	for i, r := range s.Routes {
		r.Line = ovpnconf.Line{}
		routes[i] = r
	}
	log := s.Log
	log.Verb = 0 // changes at once
	return map[string]any{
		"local, port, proto": listen, "sndbuf, rcvbuf, mark": s.Socket, "dev, tun-mtu, mssfix": s.Tunnel,
		"server": s.Network4, "server-ipv6": s.Network6, "ifconfig-pool": s.Pool4, "ifconfig-ipv6-pool": s.Pool6,
		"ifconfig-pool-persist": s.PoolPersist, "client-to-client": [2]bool{s.Clients.ToClient, s.Clients.BlockToClient},
		"management": without(s.Management), "status": s.Status, "log, log-append, syslog": log, "writepid": s.Process.WritePID, "xdp-*": s.XDP,
		"route, route-ipv6": routes, "up, down": [4]ovpnconf.Command{s.Scripts.Up, s.Scripts.Down, s.Scripts.RouteUp, s.Scripts.RoutePreDown},
	}
}

func without(m ovpnconf.Management) ovpnconf.Management {
	m.Line = ovpnconf.Line{}
	return m
}

// needRestart names the settings that differ and cannot be changed now.
func needRestart(old, new *ovpnconf.Server) (names []string) {
	before, after := fixed(old), fixed(new)
	for name, v := range before {
		if !reflect.DeepEqual(v, after[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// keepFixed gives a new configuration the old one's settings that cannot be
// changed now.
func keepFixed(old, conf *ovpnconf.Server) {
	conf.Listen, conf.Socket, conf.Tunnel = old.Listen, old.Socket, old.Tunnel
	conf.Network4, conf.Network6, conf.Pool4, conf.Pool6, conf.PoolPersist = old.Network4, old.Network6, old.Pool4, old.Pool6, old.PoolPersist
	conf.Clients.ToClient, conf.Clients.BlockToClient = old.Clients.ToClient, old.Clients.BlockToClient
	conf.Management, conf.Status, conf.XDP = old.Management, old.Status, old.XDP
	verb := conf.Log.Verb
	conf.Log = old.Log
	conf.Log.Verb = verb
	conf.Process.WritePID = old.Process.WritePID
	conf.Routes = old.Routes
	conf.Scripts.Up, conf.Scripts.Down, conf.Scripts.RouteUp, conf.Scripts.RoutePreDown = old.Scripts.Up, old.Scripts.Down, old.Scripts.RouteUp, old.Scripts.RoutePreDown
}

func signalName(s os.Signal) string {
	switch s {
	case unix.SIGHUP:
		return "SIGHUP"
	case unix.SIGUSR1:
		return "SIGUSR1"
	case unix.SIGUSR2:
		return "SIGUSR2"
	}
	return ""
}
