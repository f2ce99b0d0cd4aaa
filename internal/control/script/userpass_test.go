// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestUserPassViaFile(t *testing.T) {
	r, _, dir := newRunner(t)
	seen := filepath.Join(dir, "seen")
	password := strings.Repeat("p", 4000) + ` "$(x)`
	v, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, `stat -c %a "$1" > `+seen+`; cat "$1" >> `+seen+`; stat -c %a "$(dirname "$1")" >> `+seen+`; echo "${password:-unset}" >> `+seen+"\n"),
		ViaFile: true, Username: "joe\nroot", Password: password, Env: &Env{}})
	if err != nil || !v.OK {
		t.Fatal(v, err)
	}
	b, _ := os.ReadFile(seen)
	if want := "600\njoe_root\n" + password + "\n700\nunset\n"; string(b) != want {
		t.Errorf("the command saw %.200q", b)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "ovpn-xdp-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestUserPassViaEnvironment(t *testing.T) {
	r, _, _ := newRunner(t)
	v, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, `[ "$username" = joe ] && [ "$password" = 's3cr3t $x' ] && [ $# = 0 ]`+"\n"),
		Username: "joe", Password: "s3cr3t $x", Env: &Env{}})
	if err != nil || !v.OK {
		t.Fatal(v, err)
	}
}

func TestUserPassRefused(t *testing.T) {
	r, _, _ := newRunner(t)
	v, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, "printf 'locked out\\nsecond line' > \"$auth_failed_reason_file\"; exit 1\n"), ViaFile: true, Env: &Env{}})
	if err != nil || v.OK || v.Reason != "locked out" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := r.VerifyUserPass(soon(t), UserPass{Command: Command{"/no/such/program"}, ViaFile: true, Env: &Env{}}); err == nil || v.OK {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestDeferred(t *testing.T) {
	r, _, _ := newRunner(t)
	var told []Pending
	v, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, `printf '120\ncrtext\nCR_TEXT:E,R:code?\n' > "$auth_pending_file"; (sleep 0.4; printf 1 > "$auth_control_file") >/dev/null 2>&1 & exit 2`+"\n"),
		ViaFile: true, Env: &Env{}, Pending: func(p Pending) { told = append(told, p) }})
	if err != nil || !v.OK {
		t.Errorf("%+v, %v", v, err)
	}
	if len(told) != 1 || told[0] != (Pending{120, "crtext", "CR_TEXT:E,R:code?"}) {
		t.Errorf("told %+v", told)
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if v, err := r.VerifyUserPass(ctx, UserPass{Command: sh(t, "exit 2\n"), ViaFile: true, Env: &Env{}}); !errors.Is(err, context.DeadlineExceeded) || v.OK {
		t.Errorf("no answer: %+v, %v", v, err)
	}
}

// TestChallenge: the client's answer reaches a command that says the verdict.
func TestChallenge(t *testing.T) {
	r, _, _ := newRunner(t)
	answers := make(chan string, 1)
	answers <- "123456"
	v, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, "exit 2\n"), ViaFile: true, Env: &Env{}, Responses: answers,
		Respond: sh(t, `[ "$(cat "$1")" = 123456 ] && printf 1 > "$auth_control_file"`+"\n")})
	if err != nil || !v.OK {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestClientConnect(t *testing.T) {
	r, _, dir := newRunner(t)
	text, err := r.ClientConnect(soon(t), sh(t, `[ "$1" = "$client_connect_config_file" ] && echo 'push "route 10.0.0.0 255.0.0.0"' > "$1"`+"\n"), &Env{})
	if err != nil || text != "push \"route 10.0.0.0 255.0.0.0\"\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := r.ClientConnect(soon(t), sh(t, "exit 1\n"), &Env{}); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	text, err = r.ClientConnect(soon(t), sh(t, `printf 2 > "$client_connect_deferred_file"; (sleep 0.3; echo disable > "$1"; printf 1 > "$client_connect_deferred_file") >/dev/null 2>&1 &`+"\n"), &Env{})
	if err != nil || text != "disable\n" {
		t.Errorf("deferred: %q, %v", text, err)
	}
	for _, text := range []string{
		`printf 0 > "$client_connect_deferred_file"`, `printf 7 > "$client_connect_deferred_file"`,
		"exit 2", // of no meaning here, other than with auth-user-pass-verify
		`printf 2 > "$client_connect_deferred_file"; exit 1`,
		`printf 2 > "$client_connect_deferred_file"; (sleep 0.1; printf 0 > "$client_connect_deferred_file") >/dev/null 2>&1 &`,
	} {
		if _, err := r.ClientConnect(soon(t), sh(t, text+"\n"), &Env{}); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if text, err := r.ClientConnect(soon(t), sh(t, `printf 1 > "$client_connect_deferred_file"`+"\n"), &Env{}); err != nil || text != "" {
		t.Errorf("yes at once: %q, %v", text, err)
	}
	if _, err := r.ClientConnect(soon(t), sh(t, `rm "$1"; mkfifo "$1"`+"\n"), &Env{}); err == nil {
		t.Error("a FIFO was read")
	}
	if _, err := r.ClientConnect(soon(t), sh(t, `rm "$1"; ln -s /etc/shadow "$1"`+"\n"), &Env{}); err == nil {
		t.Error("a link was followed")
	}
	if _, err := r.ClientConnect(soon(t), sh(t, `head -c 1000000 /dev/zero > "$1"`+"\n"), &Env{}); err == nil {
		t.Error("a file of a megabyte was read")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "ovpn-xdp-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestMetadata(t *testing.T) {
	r, _, _ := newRunner(t)
	c := sh(t, `[ "$metadata_type" = 0 ] && [ "$(cat "$metadata_file")" = hello ] && [ "$script_type" = tls-crypt-v2-verify ]`+"\n")
	if err := r.VerifyMetadata(soon(t), c, &Env{}, 0, []byte("hello")); err != nil {
		t.Error(err)
	}
	if err := r.VerifyMetadata(soon(t), c, &Env{}, 0, []byte("hell")); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

func FuzzPending(f *testing.F) {
	f.Add("60\nwebauth\nWEB_AUTH::x\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parsePending(text); ok && (p.Timeout < 1 || strings.ContainsAny(p.Text+p.Method, "\n\x00")) {
			t.Fatalf("%+v", p)
		}
	})
}
