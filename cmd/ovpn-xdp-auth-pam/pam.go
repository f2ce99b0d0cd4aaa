// SPDX-License-Identifier: Apache-2.0

//go:build pam

package main

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/msteinert/pam/v2"
)

// askPAM authenticates a user and asks whether the account may be used now. It opens
// no session, as OpenVPN's plugin doesn't either.
func askPAM(q question, info func(string)) error { return askPAMIn("", q, info) }

// askPAMIn does it with the services of a folder; "": the system's.
func askPAMIn(dir string, q question, info func(string)) error {
	runtime.LockOSThread() // modules may change what belongs to the thread, its user for instance
	defer runtime.UnlockOSThread()
	var unanswered error
	converse := func(s pam.Style, text string) (string, error) {
		switch s {
		case pam.PromptEchoOn, pam.PromptEchoOff:
			answer, err := q.answers.reply(text, s == pam.PromptEchoOff)
			if err != nil {
				unanswered = fmt.Errorf("%w: %s", err, strconv.QuoteToGraphic(text))
			}
			return answer, err
		}
		info(text)
		return "", nil
	}
	t, err := start(dir, q, converse)
	if err != nil {
		return fmt.Errorf("start PAM for service %s: %w", q.service, err)
	}
	defer t.End()
	if q.host != "" {
		if err := t.SetItem(pam.Rhost, q.host); err != nil {
			return fmt.Errorf("set the client's address: %w", err)
		}
	}
	// Whoever has an empty password has none.
	if err := t.Authenticate(pam.DisallowNullAuthtok); err != nil {
		return errors.Join(fmt.Errorf("authenticate: %w", err), unanswered)
	}
	if err := t.AcctMgmt(pam.DisallowNullAuthtok); err != nil {
		return explain(fmt.Errorf("account: %w", err))
	}
	return nil
}

func start(dir string, q question, converse pam.ConversationFunc) (*pam.Transaction, error) {
	if dir == "" {
		return pam.Start(q.service, q.user, converse)
	}
	return pam.StartConfDir(q.service, q.user, converse, dir)
}

// explain adds what the client is told about an account: it has shown its password, so
// it may know.
func explain(err error) error {
	for code, told := range map[pam.Error]string{
		pam.ErrNewAuthtokReqd: "the password has expired", pam.ErrAuthtokExpired: "the password has expired",
		pam.ErrAcctExpired: "the account has expired",
	} {
		if errors.Is(err, code) {
			return refusal{err, told}
		}
	}
	return err
}
