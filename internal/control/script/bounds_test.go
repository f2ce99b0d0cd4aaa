// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// As many commands run at once, as many wait, and no more are taken.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	r := New(Config{Parallel: 1, Waiting: 1, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	release := filepath.Join(dir, "release")
	c := sh(t, "touch running; while [ ! -e release ]; do sleep 0.01; done\n")
	results := make(chan error, 2)
	run := func() { _, err := r.Run(soon(t), c, &Env{}); results <- err }
	go run()
	eventually(t, "the first does not run in its folder", func() bool { _, err := os.Stat(filepath.Join(dir, "running")); return err == nil })
	go run()
	eventually(t, "the second does not wait", func() bool { return r.waiting.Load() == 1 })
	if _, err := r.Run(soon(t), c, &Env{}); !errors.Is(err, ErrBusy) {
		t.Errorf("the third: %v", err)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	r.slots <- struct{}{}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := r.Run(ctx, c, &Env{}); !errors.Is(err, context.Canceled) {
		t.Errorf("one that need not wait any more: %v", err)
	}
	if n := r.waiting.Load(); n != 0 {
		t.Errorf("%d wait for ever", n)
	}
}

// Bytes that are no UTF-8 arrive as the client has sent them, control characters do not.
func TestCredentials(t *testing.T) {
	r, _, dir := newRunner(t)
	seen := filepath.Join(dir, "seen")
	for _, viaFile := range []bool{true, false} {
		text := `printf '%s\n%s\n' "$username" "$password" > ` + seen + "\n"
		if viaFile {
			text = `cat "$1" > ` + seen + "\n"
		}
		v, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, text), ViaFile: viaFile,
			Username: "jo\xe9\t1\x00x", Password: " é\xfc\r\n\x7f$(x) ", Env: &Env{}})
		if err != nil || !v.OK {
			t.Fatal(v, err)
		}
		if got, err := os.ReadFile(seen); err != nil || string(got) != "jo\xe9_1\n é\xfc___$(x) \n" {
			t.Errorf("via file %v: the command saw %q (%v)", viaFile, got, err)
		}
	}
}

// The file with the password is gone while a deferred answer is awaited, and the
// environment of a challenge's command never has it.
func TestPasswordIsNotLeft(t *testing.T) {
	r, _, dir := newRunner(t)
	seen := filepath.Join(dir, "seen")
	answers := make(chan string, 1)
	answers <- "x"
	for _, viaFile := range []bool{true, false} {
		v, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, `printf '%s' "$1" > `+seen+"; exit 2\n"), ViaFile: viaFile, Password: "secret", Env: &Env{}, Responses: answers,
			Respond: sh(t, `[ -z "$password" ] && [ ! -e "$(cat `+seen+`)" ] && printf 1 > "$auth_control_file" || printf 0 > "$auth_control_file"`+"\n")})
		if err != nil || !v.OK {
			t.Errorf("via file %v: %+v, %v", viaFile, v, err)
		}
		answers <- "x"
	}
}

// A command may replace the file of its answer instead of writing into it.
func TestReplacedAnswer(t *testing.T) {
	r, _, _ := newRunner(t)
	later := func(text string) string { return "(sleep 0.1; " + text + ") >/dev/null 2>&1 &\nexit 2\n" }
	for text, want := range map[string]Verdict{
		later(`rm "$auth_control_file"; sleep 0.1; echo 1 > "$auth_control_file"`):                                 {OK: true},
		later(`echo 1 > "$auth_control_file.new"; mv "$auth_control_file.new" "$auth_control_file"`):               {OK: true},
		later(`echo "come tomorrow" > "$auth_failed_reason_file"; printf 0 > "$auth_control_file"`):                {Reason: "come tomorrow"},
		`head -c 2000 /dev/zero | tr '\0' x > "$auth_failed_reason_file"; exit 1` + "\n":                           {Reason: string(make512())},
		`printf 1 > "$auth_control_file"; exit 1` + "\n":                                                           {},
		`rm "$auth_control_file" "$auth_failed_reason_file"; ln -s /etc/passwd "$auth_failed_reason_file"; exit 1`: {},
	} {
		if got, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, text), ViaFile: true, Env: &Env{}}); err != nil || got != want {
			t.Errorf("%s: %+v (%v), want %+v", text, got, err, want)
		}
	}
	if v, err := r.VerifyUserPass(soon(t), UserPass{Command: sh(t, `rm "$auth_control_file"; ln -s /proc/self/comm "$auth_control_file"; exit 2`+"\n"), ViaFile: true, Env: &Env{}}); err == nil || v.OK {
		t.Errorf("a link: %+v, %v", v, err)
	}
}

func make512() []byte {
	b := make([]byte, maxReason)
	for i := range b {
		b[i] = 'x'
	}
	return b
}
