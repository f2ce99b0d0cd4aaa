// SPDX-License-Identifier: Apache-2.0

// Package tun opens multi-queue TUN devices whose packets carry a virtio-net
// header, so that one read or write moves a super-packet of up to 64 KiB. What
// is in the headers is the business of package vnet below this one.
package tun
