// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ClsactFilter is a direct-action BPF classifier at a link's clsact ingress.
type ClsactFilter struct {
	Name     string // shown by `tc filter show`
	ProgID   int
	Priority uint16
	Handle   uint32
	Direct   bool // its return code is the verdict
}

// AttachClsact runs the BPF program of progFD at the ingress of the link, for
// all protocols, under that name and priority. The clsact qdisc is added if
// the link has none. A filter of the same name at the ingress, left behind by a
// killed process, is replaced in one step; filters of other names are never
// touched, also where they have the same priority.
func AttachClsact(ifindex, progFD int, name string, priority uint16) error {
	err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: ifindex,
		Handle:    netlink.MakeHandle(0xffff, 0),
		Parent:    netlink.HANDLE_CLSACT,
	}})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact qdisc to link %d: %w", ifindex, err)
	}
	old, err := clsactByName(ifindex, name)
	if err != nil {
		return err
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: ifindex,
			Parent:    netlink.HANDLE_MIN_INGRESS,
			Protocol:  unix.ETH_P_ALL,
			Priority:  priority,
		},
		Fd:           progFD,
		Name:         name,
		DirectAction: true,
	}
	add := netlink.FilterAdd
	if len(old) > 0 {
		filter.Priority, filter.Handle = old[0].Priority, old[0].Handle
		add = netlink.FilterReplace
	}
	if err := add(filter); err != nil {
		return fmt.Errorf("add filter %s to clsact of link %d: %w", name, ifindex, err)
	}
	return nil
}

// DetachClsact removes the filters of that name from the link's clsact ingress.
// The qdisc stays: empty it costs nothing, and another program may be about to
// fill it. No filter, no qdisc and no link of that index are no errors.
func DetachClsact(ifindex int, name string) error {
	filters, err := clsactByName(ifindex, name)
	if err != nil {
		return err
	}
	for _, f := range filters {
		err := netlink.FilterDel(&netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{
			LinkIndex: ifindex,
			Parent:    netlink.HANDLE_MIN_INGRESS,
			Protocol:  unix.ETH_P_ALL,
			Priority:  f.Priority,
			Handle:    f.Handle,
		}})
		if err != nil && !gone(err) {
			return fmt.Errorf("delete filter %s from clsact of link %d: %w", name, ifindex, err)
		}
	}
	return nil
}

// ClsactFilters lists the BPF filters at the ingress of the link's clsact qdisc,
// in the order they run. A link without clsact has none.
func ClsactFilters(ifindex int) ([]ClsactFilter, error) {
	list, err := retryDump(func() ([]netlink.Filter, error) {
		link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
		return netlink.FilterList(link, netlink.HANDLE_MIN_INGRESS)
	})
	if err != nil {
		if gone(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list filters of link %d: %w", ifindex, err)
	}
	var out []ClsactFilter
	for _, f := range list {
		if bpf, ok := f.(*netlink.BpfFilter); ok && bpf.Handle != 0 {
			out = append(out, ClsactFilter{
				Name: bpf.Name, ProgID: bpf.Id, Priority: bpf.Priority,
				Handle: bpf.Handle, Direct: bpf.DirectAction,
			})
		}
	}
	return out, nil
}

// ClsactLinks lists the indexes of the links that have a clsact qdisc, with one
// dump for the whole namespace.
func ClsactLinks() ([]int, error) {
	list, err := retryDump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(nil) })
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	var out []int
	for _, q := range list {
		if q.Type() == "clsact" {
			out = append(out, q.Attrs().LinkIndex)
		}
	}
	return out, nil
}

func clsactByName(ifindex int, name string) ([]ClsactFilter, error) {
	all, err := ClsactFilters(ifindex)
	if err != nil {
		return nil, err
	}
	var out []ClsactFilter
	for _, f := range all {
		if f.Name == name {
			out = append(out, f)
		}
	}
	return out, nil
}

func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL)
}
