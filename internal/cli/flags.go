// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

// value is a flag read by a function; the text is kept for help and man pages.
type value struct {
	text string
	kind string
	set  func(string) error
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return v.kind }
func (v *value) Set(s string) error {
	if err := v.set(s); err != nil {
		return err
	}
	v.text = s
	return nil
}

var _ pflag.Value = (*value)(nil)

// addFlag adds a flag whose text parse reads and keep stores.
func addFlag[T any](cmd *cobra.Command, name, standard, help string, parse func(string) (T, error), keep func(T)) {
	kind, usage := pflag.UnquoteUsage(&pflag.Flag{Usage: help, Value: &value{}})
	cmd.Flags().Var(&value{text: standard, kind: kind, set: func(s string) error {
		v, err := parse(s)
		if err == nil {
			keep(v)
		}
		return err
	}}, name, usage)
}

func appendTo[T any](list *[]T) func(T) { return func(v T) { *list = append(*list, v) } }

func appendAll[T any](list *[]T) func([]T) { return func(v []T) { *list = append(*list, v...) } }

func storeIn[T any](p *T) func(T) { return func(v T) { *p = v } }

func pointTo[T any](p **T) func(T) { return func(v T) { *p = &v } }

// oneOf reads one of a few words and completes them in the shell.
func oneOf(cmd *cobra.Command, p *string, name, standard, help string, words []string) {
	*p = standard
	addFlag(cmd, name, standard, help, func(s string) (string, error) {
		for _, w := range words {
			if strings.EqualFold(w, s) {
				return w, nil
			}
		}
		return "", fmt.Errorf("one of %s", strings.Join(words, ", "))
	}, storeIn(p))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func parsePeerID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 0, 32)
	if err != nil || id > admin.MaxPeerID {
		return 0, usagef("peer %q: ids are 0 to %d", s, admin.MaxPeerID)
	}
	return uint32(id), nil
}

func parseTxID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 0, 24)
	if err != nil {
		return 0, fmt.Errorf("ids are 0 to %d", 0xffffff)
	}
	return uint32(id), nil
}

// parseKeepalive reads INTERVAL:TIMEOUT in seconds, or "off".
func parseKeepalive(s string) (admin.Keepalive, error) {
	if s == "off" {
		return admin.Keepalive{}, nil
	}
	i, t, ok := strings.Cut(s, ":")
	interval, errI := strconv.Atoi(i)
	timeout, errT := strconv.Atoi(t)
	if !ok || errI != nil || errT != nil || interval < 1 || timeout < 1 {
		return admin.Keepalive{}, fmt.Errorf("interval and timeout in seconds, such as 10:60, or off")
	}
	return admin.Keepalive{Interval: interval, Timeout: timeout}, nil
}

// parseLocal reads an address, or "auto" for none.
func parseLocal(s string) (netip.Addr, error) {
	if s == "auto" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, fmt.Errorf("an address, or auto")
	}
	return a.Unmap(), nil
}

func parseMark(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("a number from 0 to 4294967295, or 0x0 to 0xffffffff")
	}
	return uint32(n), nil
}

// rungs are the modes that name one way, best first.
func rungs() []string {
	return []string{config.ModeZeroCopy, config.ModeXDP, config.ModeTC, config.ModeXDPGeneric, config.ModeSocket}
}
