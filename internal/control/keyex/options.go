// SPDX-License-Identifier: Apache-2.0

package keyex

import "strings"

// EchoOptions makes a server's options string of its client's own, so that
// neither finds a difference to warn about: only what has to differ does.
func EchoOptions(client string) string {
	options := strings.Split(client, ",")
	for i, o := range options {
		switch o {
		case "tls-client":
			options[i] = "tls-server"
		case "tls-server":
			options[i] = "tls-client"
		case "keydir 0":
			options[i] = "keydir 1"
		case "keydir 1":
			options[i] = "keydir 0"
		}
	}
	return strings.Join(options, ",")
}

// Option returns the value of an option in an options string, and whether it
// is there at all.
func Option(options, name string) (value string, ok bool) {
	for o := range strings.SplitSeq(options, ",") {
		if key, v, _ := strings.Cut(o, " "); key == name {
			return v, true
		}
	}
	return "", false
}
