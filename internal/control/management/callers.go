// SPDX-License-Identifier: Apache-2.0

package management

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// callers says whom a Unix socket talks to.
type callers struct {
	// own: root and the process's own user only.
	own bool
	// uid and gid are -1 when they don't matter.
	uid, gid int64
	self     uint32
}

var errCaller = errors.New("the configuration does not let this user in")

func newCallers(cfg Config) (callers, error) {
	c := callers{uid: -1, gid: -1, self: uint32(os.Geteuid())}
	c.own = cfg.User == "" && cfg.Group == "" && cfg.Password == ""
	if cfg.User != "" {
		id := cfg.User
		if u, err := user.Lookup(id); err == nil {
			id = u.Uid
		}
		uid, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return c, fmt.Errorf("open management interface: there is no user %q", cfg.User)
		}
		c.uid = int64(uid)
	}
	if cfg.Group != "" {
		id := cfg.Group
		if g, err := user.LookupGroup(id); err == nil {
			id = g.Gid
		}
		gid, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return c, fmt.Errorf("open management interface: there is no group %q", cfg.Group)
		}
		c.gid = int64(gid)
	}
	return c, nil
}

// check says who is at the other end, and errCaller when it is not to be talked to.
func (c callers) check(conn net.Conn) (who string, err error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return conn.RemoteAddr().String(), nil
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return "unknown", fmt.Errorf("ask who called: %w", err)
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		failed = err
	}
	if failed != nil {
		return "unknown", fmt.Errorf("ask who called: %w", failed)
	}
	who = fmt.Sprintf("uid %d gid %d pid %d", cred.Uid, cred.Gid, cred.Pid)
	switch {
	case c.own && cred.Uid != 0 && cred.Uid != c.self,
		c.uid >= 0 && int64(cred.Uid) != c.uid,
		c.gid >= 0 && int64(cred.Gid) != c.gid:
		return who, errCaller
	}
	return who, nil
}
