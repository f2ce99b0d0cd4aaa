// SPDX-License-Identifier: Apache-2.0

package management

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"syscall"
)

func listenTCP(addr netip.AddrPort) (net.Listener, error) {
	if !addr.IsValid() {
		// It would be every address.
		return nil, errors.New("open management interface: no address to listen on")
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
	if err != nil {
		return nil, fmt.Errorf("open management interface: %w", err)
	}
	return l, nil
}

// listenUnix takes the place of a socket that a process left behind. One that is
// answered stays, and is an error, as is a file that is no socket.
func listenUnix(path string, who callers) (net.Listener, error) {
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("open management interface: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("open management interface: %s is there and is no socket", path)
	default:
		conn, err := net.DialUnix("unix", nil, addr)
		if err == nil {
			conn.Close()
		}
		// EAGAIN: somebody listens, with a full queue.
		if err == nil || errors.Is(err, syscall.EAGAIN) {
			return nil, fmt.Errorf("open management interface: another process listens on %s", path)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open management interface: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", addr)
	if err != nil {
		return nil, fmt.Errorf("open management interface: %w", err)
	}
	// The mode only spares those a connection whom callers.check would refuse.
	mode := fs.FileMode(0o700)
	if !who.own {
		mode = 0o777
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, fmt.Errorf("open management interface: %w", err)
	}
	return l, nil
}
