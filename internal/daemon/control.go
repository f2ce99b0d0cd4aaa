// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/management"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/script"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
	"github.com/ovpn-xdp/ovpn-xdp/internal/engine"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tcp"
)

// Server is what a gateway with a control channel has beside the options of all
// gateways.
type Server struct {
	Conf *ovpnconf.Server
	// Load reads the configuration again, for SIGHUP.
	Load func() (*ovpnconf.Server, error)
	// Lines are the newest lines of the log, for the management interface.
	Lines *management.Log
	// Signals are SIGHUP, SIGUSR1 and SIGUSR2 as the process gets them.
	Signals <-chan os.Signal
	// Stop ends the gateway in order, as SIGTERM does.
	Stop func()
}

// irouteMetric is the metric of kernel routes to networks behind clients, as
// stock OpenVPN sets it with data channel offload.
const irouteMetric = 100

// controlled is a gateway's control channel with what hangs on it.
type controlled struct {
	*Server
	g       *gateway
	service *control.Service
	manage  *management.Server
	signals chan string // of the management interface
	verb    atomic.Int64
}

// openControl makes the control channel; the TUN is there, the engine is not.
func (g *gateway) openControl(s *Server) error {
	c := &controlled{Server: s, g: g, signals: make(chan string, 1)}
	c.verb.Store(int64(s.Conf.Log.Verb))
	var err error
	c.service, err = control.New(control.Config{
		Server: s.Conf, Peers: g.peers, Send: c, Routes: c, Dev: g.tun.Name(), Clock: engine.Monotonic, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.control = c
	for _, addr := range g.cfg.ListenTCP {
		l, err := tcp.Listen(tcp.Config{Addr: addr, Mark: int(g.cfg.Mark), RcvBuf: g.cfg.RcvBuf, SndBuf: g.cfg.SndBuf,
			MaxPacket: g.cfg.MTU + 2048, MaxConns: 2*s.Conf.Clients.Max + 1024, Handshake: 2 * s.Conf.HandWindow})
		if err != nil {
			return err
		}
		g.streams = append(g.streams, l)
	}
	if g.cfg.P2P {
		return nil
	}
	// Clients that reach each other through the host would be told to do without it.
	for _, link := range []string{g.tun.Name(), netdev.AllLinks} {
		if err := netdev.SetSendRedirects(link, false); err != nil {
			g.log.Warn("ICMP redirects cannot be switched off", "device", link, "error", err)
		}
	}
	return nil
}

// Send implements control.Sender.
func (c *controlled) Send(local, remote netip.AddrPort, datagrams [][]byte) {
	c.g.engine.SendControl(local, remote, datagrams)
}

// AddRoute and DelRoute implement control.Routes.
func (c *controlled) AddRoute(p netip.Prefix) error {
	return netdev.AddRoute(c.g.tun.Name(), netdev.Route{Dst: p, Metric: irouteMetric})
}

// DelRoute implements control.Routes.
func (c *controlled) DelRoute(p netip.Prefix) error {
	return netdev.DelRoute(c.g.tun.Name(), netdev.Route{Dst: p, Metric: irouteMetric})
}

// Packet and Closed implement engine.StreamControl.
func (c *controlled) Packet(s *engine.Stream, b []byte) bool { return c.service.Packet(s, b) }

// Closed implements engine.StreamControl.
func (c *controlled) Closed(s *engine.Stream, why error) { c.service.Closed(s, why) }

// start sets the control channel going; the engine runs.
func (c *controlled) start(ctx context.Context) error {
	if err := c.addRoutes(); err != nil {
		return err
	}
	if err := c.script(ctx, "up", c.Conf.Scripts.Up, "init"); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	if err := c.script(ctx, "route-up", c.Conf.Scripts.RouteUp); err != nil {
		return fmt.Errorf("route-up: %w", err)
	}
	c.service.Start()
	if path := c.Conf.Process.WritePID; path != "" {
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
			return fmt.Errorf("write pid: %w", err)
		}
	}
	return c.startManagement()
}

// addRoutes installs the kernel's routes of `route` and `route-ipv6`. One that
// cannot be is said and left out, as with stock OpenVPN.
func (c *controlled) addRoutes() error {
	for _, r := range c.Conf.Routes {
		route := netdev.Route{Dst: r.Prefix, Metric: max(r.Metric, 0)}
		if r.Gateway.IsValid() && !r.Direct && c.inTunnel(r.Gateway) && r.Gateway != c.Conf.Network4.Own && r.Gateway != c.Conf.Network6.Own {
			route.Gateway, route.OnLink = r.Gateway, true
		}
		if r.Direct {
			c.g.log.Warn("route outside the tunnel is left to the host", "line", r.Line.Position(), "route", r.Prefix)
			continue
		}
		if err := netdev.AddRoute(c.g.tun.Name(), route); err != nil {
			c.g.log.Warn("route cannot be added", "line", r.Line.Position(), "route", r.Prefix, "error", err)
		}
	}
	return nil
}

func (c *controlled) inTunnel(a netip.Addr) bool {
	return c.Conf.Network4.Prefix.Contains(a) || c.Conf.Network6.Prefix.Contains(a)
}

// script runs one of the commands about the device, with stock's arguments.
func (c *controlled) script(ctx context.Context, kind string, command ovpnconf.Command, last ...string) error {
	if command == nil {
		return nil
	}
	conf := c.Conf
	env := control.BaseEnv(conf, c.g.tun.Name())
	env.Set("script_type", kind)
	args := []string{c.g.tun.Name(), fmt.Sprint(conf.Tunnel.MTU), "0", env.Get("ifconfig_local"), env.Get("ifconfig_netmask")}
	if kind == "route-up" || kind == "route-pre-down" {
		args = nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r := script.New(script.Config{Dir: conf.Process.Cd, TempDir: conf.Scripts.TmpDir, Log: c.g.log})
	return r.Ask(ctx, script.Command(command), env, append(args, last...)...)
}

func (c *controlled) startManagement() error {
	m := c.Conf.Management
	if !m.Enabled {
		return nil
	}
	cfg := management.Config{Addr: m.Addr, Unix: m.Unix, User: m.User, Group: m.Group, Source: c,
		Title: c.title(), Log: c.Lines, Logger: c.g.log, Verb: func() int { return int(c.verb.Load()) }}
	if m.Tunnel {
		cfg.Addr = netip.AddrPortFrom(c.Conf.Network4.Own, m.Addr.Port())
	}
	if m.Password != "" {
		var err error
		if cfg.Password, err = management.ReadPassword(m.Password); err != nil {
			return err
		}
	}
	var err error
	if c.manage, err = management.New(cfg); err != nil {
		return err
	}
	c.state("CONNECTING", "")
	go func() {
		if err := c.manage.Serve(); err != nil {
			c.g.log.Error("management interface ended", "error", err)
		}
	}()
	return nil
}

// state tells the management interface what the gateway does now.
func (c *controlled) state(name, detail string) {
	if c.manage != nil {
		c.manage.SetState(management.State{Time: time.Now(), Name: name, Detail: detail, Tunnel4: c.Conf.Network4.Own, Tunnel6: c.Conf.Network6.Own})
	}
}

func (c *controlled) title() string { return "ovpn-xdp " + c.g.cfg.Software }

// Report implements management.Source.
func (c *controlled) Report() status.Report {
	r := c.service.Report()
	r.Title = c.title()
	return r
}

// KillClient implements management.Source.
func (c *controlled) KillClient(cid uint64, message string) bool {
	return c.service.KillClient(cid, message)
}

// Signal implements management.Source.
func (c *controlled) Signal(name string) bool {
	switch name {
	case "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM":
		select {
		case c.signals <- name:
		default: // one is being worked on
		}
		return true
	}
	return false
}

// serve does what comes round and what signals ask for, until ctx ends.
func (c *controlled) serve(ctx context.Context) {
	c.state("CONNECTED", "SUCCESS")
	var due <-chan time.Time
	if st := c.Conf.Status; st.File != "" && st.Every > 0 {
		ticker := time.NewTicker(st.Every)
		defer ticker.Stop()
		due = ticker.C
		c.writeStatus()
	}
	for {
		name := ""
		select {
		case <-ctx.Done():
			return
		case <-due:
			c.writeStatus()
		case s := <-c.Signals:
			name = signalName(s)
		case name = <-c.signals:
		}
		switch name {
		case "SIGHUP", "SIGUSR1":
			c.reload()
		case "SIGUSR2":
			c.writeStatus()
		case "SIGTERM":
			c.Stop()
		}
	}
}

// writeStatus writes the status file.
func (c *controlled) writeStatus() {
	st := c.Conf.Status
	if st.File == "" {
		r := c.Report()
		c.g.log.Info("status", "clients", len(r.Clients))
		return
	}
	if err := status.WriteFile(st.File, st.Version, c.Report()); err != nil {
		c.g.log.Error("writing the status file failed", "file", st.File, "error", err)
	}
}

// reload reads the configuration again.
func (c *controlled) reload() {
	_ = c.g.notify.Reloading()
	defer func() { _ = c.g.notify.Ready() }()
	conf, err := c.Load()
	if err == nil {
		if fixed := needRestart(c.Conf, conf); len(fixed) > 0 {
			c.g.log.Warn("these settings have changed and stay as they are until the gateway is restarted", "settings", strings.Join(fixed, "; "))
		}
		if c.Conf.Network4 != conf.Network4 || c.Conf.Network6 != conf.Network6 {
			// What clients are told would be of another network than the device's.
			err = errors.New("server or server-ipv6 has changed, which takes a restart")
		} else {
			keepFixed(c.Conf, conf)
			err = c.service.Reload(conf)
		}
	}
	if err != nil {
		c.g.log.Error("configuration cannot be reloaded; the gateway goes on with the one it has", "error", err)
		return
	}
	c.Conf = conf
	c.verb.Store(int64(conf.Log.Verb))
}

// close ends the control channel; the engine still runs.
func (c *controlled) close() {
	c.state("EXITING", "SIGTERM")
	if c.manage != nil {
		c.manage.Close()
	}
	c.service.Close()
	c.writeLast()
	if c.Conf.Process.WritePID != "" {
		if err := os.Remove(c.Conf.Process.WritePID); err != nil && !errors.Is(err, os.ErrNotExist) {
			c.g.log.Warn("removing the pid file failed", "error", err)
		}
	}
	if err := c.script(context.Background(), "route-pre-down", c.Conf.Scripts.RoutePreDown); err != nil {
		c.g.log.Warn("route-pre-down failed", "error", err)
	}
	if err := c.script(context.Background(), "down", c.Conf.Scripts.Down, "init"); err != nil {
		c.g.log.Warn("down failed", "error", err)
	}
}

// writeLast leaves a status file without clients behind, so that no monitor
// takes yesterday's for today's.
func (c *controlled) writeLast() {
	if c.Conf.Status.File != "" {
		c.writeStatus()
	}
}
