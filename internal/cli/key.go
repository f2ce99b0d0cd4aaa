// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// maxKeyFile is far above an OpenVPN static key file's 636 bytes, comments
// included.
const maxKeyFile = 64 << 10

func (a *app) keyCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "key",
		Short: "Generate, install, swap, show and remove keys",
		Long: `Generate, install, swap, show and remove keys of a running gateway's peers. Each
peer has two slots: it sends with the primary's key and receives with either.`,
	}, a.keyGenerateCommand(), a.keyAddCommand(), a.keySwapCommand(), a.keyDelCommand(), a.keyShowCommand())
}

func (a *app) keyGenerateCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "generate",
		Short: "Write a fresh OpenVPN static key file to stdout",
		Long: `Write a fresh OpenVPN static key file (2048 bits, as 'openvpn --genkey secret'
writes) to stdout. Both ends need the same file, with opposite roles. Use a key
once: packet ids must not start again under it.`,
		Example: `  (umask 077; ovpn-xdp key generate > peer7.key)`,
	}, func(*cobra.Command, []string) error {
		key, err := statickey.Generate(rand.Reader)
		if err != nil {
			return err
		}
		defer clear(key[:])
		text := statickey.Format(key)
		defer clear(text)
		_, err = a.stdout.Write(text)
		return err
	})
}

func (a *app) keyAddCommand() *cobra.Command {
	var k admin.KeyAdd
	var file, slot, role string
	var keyID uint8
	cmd := a.command(&cobra.Command{
		Use:   "add PEER --key-file FILE --role server|client [flags]",
		Short: "Install a key",
		Long: `Install a key from an OpenVPN static key file into one of a peer's slots,
replacing what the slot held. The file is read here and its content sent: the
gateway needs no access to it.`,
		Example: `  ovpn-xdp key add 7 --slot primary --key-id 0 --cipher AES-128-GCM --key-file peer7.key --role server`,
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		var err error
		if k.Peer, err = parsePeerID(args[0]); err != nil {
			return err
		}
		k.Slot, k.Role, k.KeyID = admin.Slot(slot), admin.Role(role), keyID
		block, err := a.readKey(file)
		if err != nil {
			return err
		}
		defer block.Clear()
		k.Block = block
		if err := k.Validate(); err != nil {
			return usageError{err}
		}
		return a.call(cmd.Context(), admin.MethodKeyAdd, k)
	})
	f := cmd.Flags()
	f.StringVar(&file, "key-file", "", "OpenVPN static key `file`; - is stdin")
	oneOf(cmd, &role, "role", "", "`role` of this end: server sends with the second half of the key, client with\nthe first", []string{string(admin.RoleServer), string(admin.RoleClient)})
	oneOf(cmd, &slot, "slot", string(admin.Primary), "`slot`: primary or secondary", slots())
	f.Uint8Var(&keyID, "key-id", 0, "key `id` in the records' header, 0 to 7 (default: 0)")
	oneOf(cmd, &k.Cipher, "cipher", "AES-256-GCM", "`cipher`: AES-128-GCM, AES-192-GCM, AES-256-GCM or CHACHA20-POLY1305", admin.Ciphers())
	f.Uint32Var(&k.NextPacketID, "next-packet-id", 0, "first packet `id` to send with, above all that were ever used with this key\n(default: 1)")
	_ = cmd.MarkFlagRequired("key-file")
	_ = cmd.MarkFlagRequired("role")
	return cmd
}

// readKey reads a key file, or stdin, and warns when others can read it too.
func (a *app) readKey(path string) (*admin.Secret, error) {
	in := a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read key file: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			fmt.Fprintf(a.stderr, "ovpn-xdp: warning: key file %s: mode %04o lets others read it; chmod 600 it\n", path, info.Mode().Perm())
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxKeyFile+1))
	defer clear(data)
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("read key file %s: more than %d bytes are no OpenVPN static key", path, maxKeyFile)
	}
	key, err := statickey.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read key file %s: %w", path, err)
	}
	block := admin.Secret(key)
	clear(key[:])
	return &block, nil
}

func slots() []string { return []string{string(admin.Primary), string(admin.Secondary)} }

func (a *app) keySwapCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "swap PEER",
		Short: "Exchange a peer's primary and secondary key",
		Args:  cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		id, err := parsePeerID(args[0])
		if err != nil {
			return err
		}
		return a.call(cmd.Context(), admin.MethodKeySwap, admin.KeyRef{Peer: id})
	})
}

func (a *app) keyDelCommand() *cobra.Command {
	var slot string
	cmd := a.command(&cobra.Command{
		Use:   "del PEER --slot primary|secondary",
		Short: "Empty one of a peer's slots",
		Args:  cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		id, err := parsePeerID(args[0])
		if err != nil {
			return err
		}
		return a.call(cmd.Context(), admin.MethodKeyDel, admin.KeyRef{Peer: id, Slot: admin.Slot(slot)})
	})
	oneOf(cmd, &slot, "slot", "", "`slot`: primary or secondary", slots())
	_ = cmd.MarkFlagRequired("slot")
	return cmd
}

func (a *app) keyShowCommand() *cobra.Command {
	var asJSON bool
	cmd := a.command(&cobra.Command{
		Use:   "show PEER [flags]",
		Short: "Show a peer's keys, never their bytes",
		Args:  cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		id, err := parsePeerID(args[0])
		if err != nil {
			return err
		}
		var list admin.KeyList
		err = a.ask(cmd.Context(), func(c *admin.Client) error {
			return c.Call(cmd.Context(), admin.MethodKeyShow, admin.KeyRef{Peer: id}, &list)
		})
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(struct {
				Version int    `json:"version"`
				Peer    uint32 `json:"peer"`
				admin.KeyList
			}{admin.Version, id, list})
		}
		return writeKeyTable(a.stdout, list.Keys)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeKeyTable(w io.Writer, keys []admin.Key) error {
	if len(keys) == 0 {
		_, err := fmt.Fprintln(w, "no keys: nothing is sent or received")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SLOT\tKEY ID\tCIPHER\tNEXT PACKET ID\tHIGHEST RECEIVED\tFINGERPRINT")
	for _, k := range keys {
		next := fmt.Sprint(k.NextPacketID)
		if k.NextPacketID > 1<<32-1 {
			next = "none left"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%.16s\n", k.Slot, k.KeyID, k.Cipher, next, k.HighestReceived, k.Fingerprint)
	}
	return t.Flush()
}
