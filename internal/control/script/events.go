// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// ErrRefused says that a command ended with an exit code that means no.
var ErrRefused = errors.New("refused")

// refused turns an exit code into an error.
func refused(code int, err error) error {
	if err == nil && code != 0 {
		return fmt.Errorf("%w, exit code %d", ErrRefused, code)
	}
	return err
}

// Ask runs a command that says yes with exit code 0.
func (r *Runner) Ask(ctx context.Context, c Command, env *Env, args ...string) error {
	return refused(r.Run(ctx, c, env, args...))
}

// ClientConnect runs a client-connect command and returns the configuration
// that it wrote for the client, at most 256 KiB; nothing of it is checked. The
// answer comes later if the command writes `2` into the file that
// client_connect_deferred_file names and exits with 0; it then has to write `1` or `0`
// there before ctx ends. env is not changed.
func (r *Runner) ClientConnect(ctx context.Context, c Command, env *Env) (config string, err error) {
	dir, err := r.folder()
	if err != nil {
		return "", err
	}
	defer dir.remove()
	env = env.Clone()
	conf, err := dir.offer(env, "client_connect_config_file")
	if err != nil {
		return "", err
	}
	later, err := dir.offer(env, "client_connect_deferred_file")
	if err != nil {
		return "", err
	}
	if err := r.Ask(ctx, c, env, conf); err != nil {
		return "", err
	}
	switch said, err := answer(later); {
	case err != nil:
		return "", err
	case said == '2':
		yes, err := await(ctx, later, nil, nil)
		if err != nil {
			return "", err
		}
		if !yes {
			return "", ErrRefused
		}
	case said != 0 && said != '1':
		return "", fmt.Errorf("%w, client_connect_deferred_file begins with %q", ErrRefused, said)
	}
	return readFile(conf)
}

// VerifyMetadata runs a tls-crypt-v2-verify command about the metadata of a
// client's key: its type, and its bytes in a file.
func (r *Runner) VerifyMetadata(ctx context.Context, c Command, env *Env, kind uint8, metadata []byte) error {
	dir, err := r.folder()
	if err != nil {
		return err
	}
	defer dir.remove()
	path, err := dir.add("metadata_file", metadata)
	if err != nil {
		return err
	}
	env = env.Clone()
	env.Set("metadata_type", strconv.Itoa(int(kind)))
	env.Set("metadata_file", path)
	env.Set("script_type", "tls-crypt-v2-verify")
	return r.Ask(ctx, c, env)
}
