// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// AllLinks names, where a function says so, the setting that holds for all links
// beside their own.
const AllLinks = "all"

// SetSendRedirects has the kernel tell senders, or not, by ICMP redirects that a
// packet left by the link that it came in on. Peers of one TUN that reach each other
// through the host would all be told, wrongly, to talk to each other without it.
// IPv4 only. The kernel sends them when the link's setting or that of AllLinks is
// on, so that switching them off takes both.
func SetSendRedirects(link string, on bool) error {
	value := 0
	if on {
		value = 1
	}
	return setIPv4(link, "send_redirects", value)
}

// SendRedirects reports whether the kernel sends IPv4 redirects for the link, by
// its own setting or that of AllLinks.
func SendRedirects(link string) (bool, error) {
	own, all, err := bothIPv4(link, "send_redirects")
	return own != 0 || all != 0, err
}

// RPFilter is how the kernel checks the source of an IPv4 packet that comes in on
// a link (RFC 3704).
type RPFilter int

const (
	RPFilterOff    RPFilter = iota
	RPFilterStrict          // the route back must leave by the link
	RPFilterLoose           // there must be a route back
)

// SetRPFilter sets the link's reverse path filter. The kernel takes the greater
// one of the link's and that of AllLinks.
func SetRPFilter(link string, mode RPFilter) error { return setIPv4(link, "rp_filter", int(mode)) }

// ReversePathFilter returns the link's reverse path filter as the kernel applies it.
func ReversePathFilter(link string) (RPFilter, error) {
	own, all, err := bothIPv4(link, "rp_filter")
	return RPFilter(max(own, all)), err
}

func bothIPv4(link, name string) (own, all int, err error) {
	if own, err = getIPv4(link, name); err != nil {
		return 0, 0, err
	}
	all, err = getIPv4(AllLinks, name)
	return own, all, err
}

// ipv4Path is where a link's IPv4 variable is. /proc/sys/net is that of the
// reader's namespace, unlike /sys/class/net.
func ipv4Path(link, name string) (string, error) {
	if link == "" || len(link) > MaxName || link == "." || link == ".." || strings.ContainsRune(link, '/') {
		return "", fmt.Errorf("find link %q: %w", link, ErrNotFound)
	}
	return "/proc/sys/net/ipv4/conf/" + link + "/" + name, nil
}

func getIPv4(link, name string) (int, error) {
	path, err := ipv4Path(link, name)
	if err != nil {
		return 0, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read %s of %s: %w", name, link, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("read %s of %s: %w", name, link, err)
	}
	return n, nil
}

func setIPv4(link, name string, value int) error {
	path, err := ipv4Path(link, name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(value)), 0); err != nil {
		return fmt.Errorf("set %s of %s to %d: %w", name, link, value, err)
	}
	return nil
}
