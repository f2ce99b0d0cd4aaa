// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/script"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// started is when the process was.
var started = time.Now()

// BaseEnv returns the variables that every command sees, up and down included.
func BaseEnv(conf *ovpnconf.Server, dev string) *script.Env {
	e := &script.Env{}
	e.Set("script_context", "init")
	e.Set("dev", dev)
	e.Set("dev_type", "tun")
	e.Set("tun_mtu", strconv.Itoa(conf.Tunnel.MTU))
	e.Set("verb", strconv.Itoa(conf.Log.Verb))
	e.Set("daemon", "0")
	e.Set("daemon_log_redirect", map[bool]string{true: "1", false: "0"}[conf.Log.File != ""])
	e.Set("daemon_start_time", strconv.FormatInt(started.Unix(), 10))
	e.Set("redirect_gateway", "0")
	e.Set("daemon_pid", strconv.Itoa(os.Getpid()))
	if n := conf.Network4; n.Own.IsValid() {
		e.Set("ifconfig_local", n.Own.String())
		e.Set("ifconfig_netmask", mask(n.Prefix.Bits()))
	}
	if n := conf.Network6; n.Own.IsValid() {
		e.Set("ifconfig_ipv6_local", n.Own.String())
		e.Set("ifconfig_ipv6_netbits", strconv.Itoa(n.Prefix.Bits()))
	}
	for n, l := range conf.Listen {
		at := "_" + strconv.Itoa(n+1)
		e.Set("proto"+at, l.Proto)
		e.Set("local_port"+at, strconv.Itoa(int(l.Port)))
		e.Set("remote_port"+at, strconv.Itoa(int(l.Port)))
		if l.Host != "" {
			e.Set("local"+at, l.Host)
		}
	}
	for _, v := range conf.Scripts.Env {
		e.Set(v.Name, v.Value)
	}
	return e
}

// env returns what a command sees of this client. a is the attempt that is
// being decided about; nil: the client is authenticated.
func (i *instance) env(a *attempt) *script.Env {
	c := &i.client
	e := BaseEnv(i.set.conf, i.set.dev)
	setRemote(e, "untrusted", i.remote())
	for _, v := range c.info.Env() {
		e.Set(v.Name, v.Value)
	}
	id, has, user, name := c.identity, c.hasCert, c.username, c.name
	if a != nil {
		// A username is handed to who checks it; to others it would look checked.
		id, has, user, name = a.identity, a.hasCert, "", a.identity.CommonName
	}
	if has {
		for k, v := range i.set.verify.Env(id) {
			e.Set(k, v)
		}
		// Fields of subjects are there already; of what x509-track can name, digests remain.
		for _, t := range i.set.conf.Peers.Track {
			for depth := range id.Certificates {
				n := strconv.Itoa(depth)
				switch t.Name {
				case "SHA1":
					e.Set("X509_"+n+"_SHA1", e.Get("tls_digest_"+n))
				case "SHA256":
					e.Set("X509_"+n+"_SHA256", e.Get("tls_digest_sha256_"+n))
				}
				if !t.Full {
					break
				}
			}
		}
	}
	if name != "" && name != unnamed {
		e.Set("common_name", name)
	}
	if user != "" {
		e.Set("username", user)
	}
	if a == nil {
		setRemote(e, "trusted", i.remote())
	}
	return e
}

func setRemote(e *script.Env, kind string, at netip.AddrPort) {
	name := kind + "_ip"
	if at.Addr().Is6() {
		name = kind + "_ip6"
	}
	e.Set(name, at.Addr().String())
	e.Set(kind+"_port", strconv.Itoa(int(at.Port())))
}

// poolEnv adds the addresses that a client gets.
func poolEnv(e *script.Env, l *lease, conf *ovpnconf.Server) {
	if l.v4.IsValid() {
		e.Set("ifconfig_pool_remote_ip", l.v4.String())
		e.Set("ifconfig_pool_netmask", mask(l.bits4))
	}
	if l.v6.IsValid() {
		e.Set("ifconfig_pool_remote_ip6", l.v6.String())
		e.Set("ifconfig_pool_ip6_netbits", strconv.Itoa(l.bits6))
		e.Set("ifconfig_pool_local_ip6", conf.Network6.Own.String())
	}
}

// timeEnv adds when a client connected.
func timeEnv(e *script.Env, since time.Time) {
	e.Set("time_ascii", since.Format("2006-01-02 15:04:05"))
	e.Set("time_unix", strconv.FormatInt(since.Unix(), 10))
}
