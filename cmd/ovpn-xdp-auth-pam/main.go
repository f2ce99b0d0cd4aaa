// SPDX-License-Identifier: Apache-2.0

// Command ovpn-xdp-auth-pam asks PAM whether a user's password is right. It is
// run by auth-user-pass-verify, via-file, in place of OpenVPN's
// openvpn-plugin-auth-pam.so:
//
//	auth-user-pass-verify "/usr/lib/ovpn-xdp/auth-pam [SERVICE [PROMPT ANSWER]...]" via-file
//
// It needs libpam, so it is a program of its own, and built with the tag pam
// alone. Without the tag it refuses everybody.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

const (
	// exitRefused is for every kind of no. Never 2, which means that the answer
	// comes later.
	exitRefused = 1
	// defaultService is the one whose file most servers have already, from the
	// documentation of OpenVPN's plugin.
	defaultService = "openvpn"
)

// question is what PAM is asked.
type question struct {
	service string
	user    string
	host    string // address of the client; "": not known
	answers *answers
}

// asker asks PAM. A nil error lets the user in; a refusal says what the client may be
// told of the reason.
type asker func(q question, info func(string)) error

// refusal is an error with a reason that the client is told.
type refusal struct {
	error
	told string
}

func (r refusal) Unwrap() error { return r.error }

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stderr, askPAM))
}

// run returns the exit code: 0 lets the user in. A panic is a no as well, since
// Go's own exit code for it would be that of an answer that comes later.
func run(args []string, getenv func(string) string, log io.Writer, ask asker) (code int) {
	defer func() {
		if e := recover(); e != nil {
			fmt.Fprintln(log, "internal error:", e)
			code = exitRefused
		}
	}()
	q, file, err := parseArgs(args)
	if err != nil {
		fmt.Fprintf(log, "%v; usage: auth-pam [SERVICE [PROMPT ANSWER]...] FILE\n", err)
		return exitRefused
	}
	c, err := readCredentials(file)
	if err != nil {
		fmt.Fprintln(log, err)
		return exitRefused
	}
	q.user, q.host = c.user, host(getenv)
	q.answers.credentials, q.answers.commonName = c, getenv("common_name")
	err = ask(q, func(text string) { fmt.Fprintf(log, "PAM says %s\n", strconv.QuoteToGraphic(text)) })
	if err == nil {
		return 0
	}
	fmt.Fprintf(log, "user %s refused: %v\n", strconv.QuoteToGraphic(c.user), err)
	if r, ok := errors.AsType[refusal](err); ok {
		tell(getenv("auth_failed_reason_file"), r.told, log)
	}
	return exitRefused
}

// parseArgs reads the command line. Its last argument is the file.
func parseArgs(args []string) (q question, file string, err error) {
	if len(args) == 0 {
		return q, "", errors.New("no file")
	}
	words, file := args[:len(args)-1], args[len(args)-1]
	q = question{service: defaultService, answers: &answers{}}
	if len(words) > 0 {
		q.service, words = words[0], words[1:]
	}
	// libpam takes it for the name of a file.
	if q.service == "" || q.service[0] == '.' || strings.Contains(q.service, "/") {
		return q, "", fmt.Errorf("%q is no name of a service", q.service)
	}
	if len(words)%2 != 0 {
		return q, "", fmt.Errorf("prompt %q has no answer", words[len(words)-1])
	}
	for n := 0; n < len(words); n += 2 {
		q.answers.rules = append(q.answers.rules, rule{prompt: words[n], answer: words[n+1]})
	}
	return q, file, nil
}

// host returns the client's address out of the environment of scripts.
func host(getenv func(string) string) string {
	for _, name := range []string{"untrusted_ip", "untrusted_ip6"} {
		if a, err := netip.ParseAddr(getenv(name)); err == nil {
			return a.Unmap().String()
		}
	}
	return ""
}

// tell writes what the client is told. The file is there if the caller wants it.
func tell(file, text string, log io.Writer) {
	if file == "" || text == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(log, "write reason for the client:", err)
	}
}
