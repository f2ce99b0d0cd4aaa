// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/internal/replay"
)

func (a *app) replayCommand() *cobra.Command {
	var pcap, keys, inner string
	var asJSON bool
	batch, prefetch := config.DefaultBatch, config.DefaultPrefetch
	cmd := a.command(&cobra.Command{
		Use:   "replay --pcap FILE --keys FILE [flags]",
		Short: "Open a recorded session offline, through the code for live traffic",
		Long: `Open a recorded session of the outer link offline, in both directions, through
the code that opens live traffic. It needs no rights and no gateway. The 30 s
rule of the replay window goes by the capture's time.

The keys file is a JSON object with "cipher", "server_port", "peer_id" and a list
"keys", of which each has "key_id", "client_to_server" and "server_to_client";
these have "key" and "implicit_iv" in hexadecimal digits.`,
		Example: `  ovpn-xdp replay --pcap session.pcap --keys session.json --write-inner inner.pcap`,
	}, func(*cobra.Command, []string) error {
		o := replay.Options{Batch: batch, Prefetch: prefetch}
		if batch < 1 || batch > 64 || prefetch < 0 || prefetch > 64 {
			return usagef("batch %d, prefetch %d: 1 to 64 and 0 to 64 records are possible", batch, prefetch)
		}
		result, err := a.replay(pcap, keys, inner, o)
		if err != nil {
			return err
		}
		for _, note := range result.Notes {
			fmt.Fprintf(a.stderr, "ovpn-xdp: note: %s\n", note)
		}
		if asJSON {
			return writeReplayJSON(a.stdout, result)
		}
		return writeReplayText(a.stdout, result)
	})
	f := cmd.Flags()
	f.StringVar(&pcap, "pcap", "", "capture `file` of the outer link, pcap or pcapng; - is stdin")
	f.StringVar(&keys, "keys", "", "keys `file`")
	f.StringVar(&inner, "write-inner", "", "pcap `file` to write the inner packets to (default: none)")
	f.IntVar(&batch, "batch", batch, "most `records` opened together, 1 to 64")
	f.IntVar(&prefetch, "prefetch", prefetch, "how many `records` ahead are prefetched, 0 to 64; 0 is off")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagRequired("pcap")
	_ = cmd.MarkFlagRequired("keys")
	return cmd
}

// replay opens the files. The file of inner packets is made last, so that a
// mistake in another one leaves nothing behind.
func (a *app) replay(pcap, keys, inner string, o replay.Options) (result *replay.Result, err error) {
	kf, err := os.Open(keys)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	defer kf.Close()
	if o.Keys, err = replay.ReadKeys(kf); err != nil {
		return nil, fmt.Errorf("%s: %w", keys, err)
	}
	o.Capture = a.stdin
	if pcap != "-" {
		f, err := os.Open(pcap)
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		defer f.Close()
		p := newProgress(f, a.stderr)
		defer p.done()
		o.Capture = p
	}
	if inner != "" {
		f, err := os.Create(inner)
		if err != nil {
			return nil, fmt.Errorf("write inner packets: %w", err)
		}
		w := bufio.NewWriterSize(f, 1<<20)
		o.Inner = w
		defer func() {
			if e := errors.Join(w.Flush(), f.Close()); err == nil && e != nil {
				err = fmt.Errorf("write inner packets: %w", e)
			}
		}()
	}
	if result, err = replay.Run(o); err != nil {
		return nil, fmt.Errorf("%s: %w", pcap, err)
	}
	return result, nil
}

// writeReplayJSON prints members in alphabetical order, indented by one: byte
// for byte what the recorded sessions' expected results look like, so that
// cmp can compare.
func writeReplayJSON(w io.Writer, r *replay.Result) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}

func writeReplayText(w io.Writer, r *replay.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tclient to server\tserver to client\t")
	c, s := &r.Directions.ClientToServer, &r.Directions.ServerToClient
	for _, line := range []struct {
		label string
		c, s  uint64
	}{
		{"records", c.Records, s.Records}, {"opened", c.Opened, s.Opened}, {"bytes", c.Bytes, s.Bytes},
		{"keepalive", c.Keepalive, s.Keepalive}, {"bad_record", c.BadRecord, s.BadRecord},
		{"unknown_peer", c.UnknownPeer, s.UnknownPeer}, {"no_key", c.NoKey, s.NoKey},
		{"auth", c.Auth, s.Auth}, {"replay", c.Replay, s.Replay},
	} {
		fmt.Fprintf(t, "%s\t%s\t%s\t\n", line.label, count(line.c), count(line.s))
	}
	fmt.Fprintf(t, "control\t%s\t\t\n", count(r.Control))
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "sha256 client to server %s\nsha256 server to client %s\n", c.SHA256, s.SHA256)
	return err
}

// progress is a reader that says how far it is: on a terminal only, and only
// for what takes a while.
type progress struct {
	r     io.Reader
	out   io.Writer // nil: silent
	size  int64
	read  int64
	next  time.Time
	shown bool
}

const (
	// progressMin: smaller files are done before anybody could read it.
	progressMin   = 16 << 20
	progressEvery = 200 * time.Millisecond
)

func newProgress(f *os.File, stderr io.Writer) *progress {
	p := &progress{r: f}
	info, err := f.Stat()
	if _, _, isTerminal := terminal(stderr); err == nil && isTerminal && info.Mode().IsRegular() && info.Size() >= progressMin {
		p.out, p.size = stderr, info.Size()
	}
	return p
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	if p.out != nil {
		if now := time.Now(); now.After(p.next) {
			p.next, p.shown = now.Add(progressEvery), true
			fmt.Fprintf(p.out, "\r\x1b[Kreplay: %d %% of %s", 100*p.read/max(p.size, 1), scaled(float64(p.size), "B"))
		}
	}
	return n, err
}

// done removes the line again.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
