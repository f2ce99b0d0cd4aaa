// SPDX-License-Identifier: Apache-2.0

// Package sdnotify tells systemd how a service of Type=notify or notify-reload
// is doing, by the protocol of sd_notify(3).
package sdnotify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	variable = "NOTIFY_SOCKET"
	// patience is how long a full queue of the service manager may hold up a caller.
	patience = 2 * time.Second
	// maxStatus is the most bytes of a status line; systemctl shows one line of a terminal.
	maxStatus = 512
)

// Notifier sends to the socket that systemd named. The nil Notifier sends
// nothing, so that a process need not know whether it runs as a unit.
// Its methods are safe for concurrent use and return within 2 s.
type Notifier struct{ addr *net.UnixAddr }

// New returns the notifier of the environment's NOTIFY_SOCKET and takes that out of
// the environment, so that scripts cannot speak for the service. It is nil, without
// an error, when the variable is not set.
func New() (*Notifier, error) {
	name := os.Getenv(variable)
	if name == "" {
		return nil, nil
	}
	if err := os.Unsetenv(variable); err != nil {
		return nil, fmt.Errorf("unset %s: %w", variable, err)
	}
	if len(name) < 2 || name[0] != '/' && name[0] != '@' {
		return nil, fmt.Errorf("read %s: %q is neither a path nor an abstract name", variable, name)
	}
	return &Notifier{&net.UnixAddr{Name: name, Net: "unixgram"}}, nil
}

// Ready says that the service is up, also at the end of a reload.
func (n *Notifier) Ready() error { return n.send("READY=1") }

// Reloading says that a reload has begun; Ready has to follow. The time in it lets
// systemd tell this reload from the one before.
func (n *Notifier) Reloading() error {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return fmt.Errorf("read monotonic clock: %w", err)
	}
	return n.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", ts.Nano()/1000))
}

// Stopping says that the service is on its way down.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Status sets the line that systemctl status shows. Control characters become
// spaces, and of more than 512 bytes the rest is left out.
func (n *Notifier) Status(text string) error {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxStatus {
		text = strings.ToValidUTF8(text[:maxStatus], "")
	}
	return n.send("STATUS=" + text)
}

// send opens a socket for each message: systemd may have been replaced since the last.
func (n *Notifier) send(message string) error {
	if n == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, n.addr)
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(patience))
		if err == nil {
			_, err = conn.Write([]byte(message))
		}
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		return fmt.Errorf("notify service manager: %w", err)
	}
	return nil
}
