// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"io"
	"strconv"
	"time"
)

// ErrVersion is a status version other than 1, 2 and 3.
var ErrVersion = errors.New("status version is not 1, 2 or 3")

// stamp is how OpenVPN 2.5 and later write times; before, it was ctime's form.
const stamp = "2006-01-02 15:04:05"

// Column titles of OpenVPN 2.6 and 2.7. Programs find columns by them, so new
// ones may only be added at the end of a row.
var (
	clientColumns = []string{
		"Common Name", "Real Address", "Virtual Address", "Virtual IPv6 Address", "Bytes Received", "Bytes Sent",
		"Connected Since", "Connected Since (time_t)", "Username", "Client ID", "Peer ID", "Data Channel Cipher",
	}
	routeColumns = []string{"Virtual Address", "Common Name", "Real Address", "Last Ref", "Last Ref (time_t)"}
)

// Write writes a report in the layout of a version: 1 has headings, 2 has a keyword in
// front of each comma-separated row, 3 is 2 with tabs. Lines end in a line feed.
// Times are written in their own locations. The report goes out in one call of
// w.Write, whose error is returned. ErrVersion: there is no such version.
func Write(w io.Writer, version int, r Report) error {
	b, err := Append(nil, version, r)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// Append is Write to the end of dst, which it returns grown. Its error is ErrVersion.
func Append(dst []byte, version int, r Report) ([]byte, error) {
	switch version {
	case 1:
		return headed(dst, &r), nil
	case 2:
		return tagged(dst, ',', &r), nil
	case 3:
		return tagged(dst, '\t', &r), nil
	}
	return dst, ErrVersion
}

// headed is version 1.
func headed(dst []byte, r *Report) []byte {
	dst = append(dst, "OpenVPN CLIENT LIST\n"...)
	dst = row(dst, ',', "Updated", r.Time.Format(stamp))
	dst = row(dst, ',', "Common Name", "Real Address", "Bytes Received", "Bytes Sent", "Connected Since")
	for i := range r.Clients {
		c := &r.Clients[i]
		dst = row(dst, ',', name(c.CommonName), Real(c.Real), decimal(c.BytesReceived), decimal(c.BytesSent), c.Since.Format(stamp))
	}
	dst = append(dst, "ROUTING TABLE\n"...)
	dst = row(dst, ',', "Virtual Address", "Common Name", "Real Address", "Last Ref")
	for i := range r.Routes {
		t := &r.Routes[i]
		dst = row(dst, ',', destination(t.Prefix), name(t.CommonName), Real(t.Real), t.LastRef.Format(stamp))
	}
	dst = append(dst, "GLOBAL STATS\n"...)
	dst = row(dst, ',', "Max bcast/mcast queue length", strconv.Itoa(r.MaxBcast))
	return append(dst, "END\n"...)
}

// tagged is versions 2 and 3.
func tagged(dst []byte, sep byte, r *Report) []byte {
	dst = row(dst, sep, "TITLE", Printable(r.Title))
	dst = row(dst, sep, "TIME", r.Time.Format(stamp), seconds(r.Time))
	dst = row(dst, sep, append([]string{"HEADER", "CLIENT_LIST"}, clientColumns...)...)
	for i := range r.Clients {
		c := &r.Clients[i]
		dst = row(dst, sep, "CLIENT_LIST", name(c.CommonName), Real(c.Real), inner(c.Virtual4), inner(c.Virtual6),
			decimal(c.BytesReceived), decimal(c.BytesSent), c.Since.Format(stamp), seconds(c.Since),
			name(c.Username), decimal(c.ClientID), decimal(uint64(c.PeerID)), Printable(c.Cipher))
	}
	dst = row(dst, sep, append([]string{"HEADER", "ROUTING_TABLE"}, routeColumns...)...)
	for i := range r.Routes {
		t := &r.Routes[i]
		dst = row(dst, sep, "ROUTING_TABLE", destination(t.Prefix), name(t.CommonName), Real(t.Real), t.LastRef.Format(stamp), seconds(t.LastRef))
	}
	dst = row(dst, sep, "GLOBAL_STATS", "Max bcast/mcast queue length", strconv.Itoa(r.MaxBcast))
	// The kernel's ovpn driver is not used.
	dst = row(dst, sep, "GLOBAL_STATS", "dco_enabled", "0")
	return append(dst, "END\n"...)
}

// row appends fields, which must be free of separators and line ends.
func row(dst []byte, sep byte, fields ...string) []byte {
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, sep)
		}
		dst = append(dst, f...)
	}
	return append(dst, '\n')
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
