// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// ChannelCounts are a device's channels, as `ethtool -l` shows them.
type ChannelCounts struct {
	Rx, Tx, Combined          int // in use
	MaxRx, MaxTx, MaxCombined int // possible
}

// RxQueues is the number of receive queues in use.
func (c ChannelCounts) RxQueues() int { return c.Rx + c.Combined }

// Channels reads a device's channels. Many software devices have none:
// EOPNOTSUPP. A veth has them from 5.13 on.
func Channels(link string) (ChannelCounts, error) {
	raw := ethtoolChannels{Cmd: unix.ETHTOOL_GCHANNELS}
	if err := ethtool(link, &raw); err != nil {
		return ChannelCounts{}, fmt.Errorf("get channels of %s: %w", link, err)
	}
	return ChannelCounts{
		Rx: int(raw.RxCount), Tx: int(raw.TxCount), Combined: int(raw.CombinedCount),
		MaxRx: int(raw.MaxRx), MaxTx: int(raw.MaxTx), MaxCombined: int(raw.MaxCombined),
	}, nil
}

// driver returns ethtool's name of the driver or nothing.
func driver(link string) string {
	info := unix.EthtoolDrvinfo{Cmd: unix.ETHTOOL_GDRVINFO}
	if ethtool(link, &info) != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}

// Names of features as the kernel and `ethtool -k` list them.
const (
	FeatureGRO        = "rx-gro"
	FeatureGSO        = "tx-generic-segmentation"
	FeatureTSO4       = "tx-tcp-segmentation"
	FeatureTSO6       = "tx-tcp6-segmentation"
	FeatureTSOECN     = "tx-tcp-ecn-segmentation"
	FeatureTSOMangle  = "tx-tcp-mangleid-segmentation"
	FeatureUSO        = "tx-udp-segmentation"
	FeatureRxChecksum = "rx-checksum"
	FeatureTxChecksum = "tx-checksum-ip-generic"
)

// stringSetFeatures is ETH_SS_FEATURES of linux/ethtool.h.
const stringSetFeatures = 4

// maxFeatures is how many features a device may have: 64 today, with room for
// the kernel's next word or two.
const maxFeatures = 4 * 32

// Features returns the device's features by the kernel's name and whether each
// is active.
func Features(link string) (map[string]bool, error) {
	names, err := featureNames(link)
	if err != nil {
		return nil, fmt.Errorf("get features of %s: %w", link, err)
	}
	raw := ethtoolGetFeatures{Cmd: unix.ETHTOOL_GFEATURES, Size: maxFeatures / 32}
	if err := ethtool(link, &raw); err != nil {
		return nil, fmt.Errorf("get features of %s: %w", link, err)
	}
	features := make(map[string]bool, len(names))
	for i, name := range names {
		if name != "" {
			features[name] = raw.Blocks[i/32].Active>>(i%32)&1 != 0
		}
	}
	return features, nil
}

// SetFeatures switches features of the device on or off by the kernel's name.
// Names that this kernel does not have are an error only if they are to be on.
// The kernel applies what the device lets it change; what then differs from
// what was asked for is an error that names the feature.
func SetFeatures(link string, want map[string]bool) error {
	names, err := featureNames(link)
	if err != nil {
		return fmt.Errorf("set features of %s: %w", link, err)
	}
	// The kernel takes exactly as many words as it has.
	raw := ethtoolSetFeatures{Cmd: unix.ETHTOOL_SFEATURES, Size: uint32(len(names)+31) / 32}
	for name, on := range want {
		i := slices.Index(names, name)
		if i < 0 {
			if on {
				return fmt.Errorf("set features of %s: kernel has no feature %s", link, name)
			}
			continue
		}
		raw.Blocks[i/32].Valid |= 1 << (i % 32)
		if on {
			raw.Blocks[i/32].Requested |= 1 << (i % 32)
		}
	}
	if err := ethtool(link, &raw); err != nil {
		return fmt.Errorf("set features of %s: %w", link, err)
	}
	have, err := Features(link)
	if err != nil {
		return err
	}
	for name, on := range want {
		if have[name] != on {
			return fmt.Errorf("set features of %s: %s can't be switched %s", link, name, map[bool]string{true: "on", false: "off"}[on])
		}
	}
	return nil
}

func featureNames(link string) ([]string, error) {
	raw := ethtoolStrings{Cmd: unix.ETHTOOL_GSTRINGS, Set: stringSetFeatures}
	count := ethtoolStringCount{Cmd: unix.ETHTOOL_GSSET_INFO, Mask: 1 << stringSetFeatures}
	if err := ethtool(link, &count); err != nil {
		return nil, err
	}
	if count.Len > maxFeatures {
		return nil, fmt.Errorf("kernel lists %d features, expected at most %d", count.Len, maxFeatures)
	}
	raw.Len = count.Len
	if err := ethtool(link, &raw); err != nil {
		return nil, err
	}
	names := make([]string, raw.Len)
	for i := range names {
		names[i] = unix.ByteSliceToString(raw.Strings[i][:])
	}
	return names, nil
}
