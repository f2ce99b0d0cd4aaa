// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
// that it wrote for the client. Its answer may come later: exit code 2, or `2` in the file
// that client_connect_deferred_file names, until that holds `1` or `0`.
func (r *Runner) ClientConnect(ctx context.Context, c Command, env *Env) (config string, err error) {
	dir, remove, err := r.folder()
	if err != nil {
		return "", err
	}
	defer remove()
	conf, later := filepath.Join(dir, "client_connect_config_file"), filepath.Join(dir, "client_connect_deferred_file")
	if err := errors.Join(os.WriteFile(conf, nil, 0o600), os.WriteFile(later, nil, 0o600)); err != nil {
		return "", fmt.Errorf("make files for the command: %w", err)
	}
	env = env.Clone()
	env.Set("client_connect_config_file", conf)
	env.Set("client_connect_deferred_file", later)
	code, err := r.Run(ctx, c, env, conf)
	if err != nil {
		return "", err
	}
	said, _ := readFile(later)
	if code == exitDeferred || code == 0 && strings.TrimSpace(said) == "2" {
		if err := awaitDeferred(ctx, later); err != nil {
			return "", err
		}
	} else if err := refused(code, nil); err != nil {
		return "", err
	}
	return readFile(conf)
}

func awaitDeferred(ctx context.Context, path string) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		text, err := readFile(path)
		if err != nil {
			return fmt.Errorf("read deferred answer: %w", err)
		}
		switch strings.TrimSpace(text) {
		case "1":
			return nil
		case "0":
			return ErrRefused
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("deferred answer did not come: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}

// VerifyMetadata runs a tls-crypt-v2-verify command about the metadata of a
// client's key.
func (r *Runner) VerifyMetadata(ctx context.Context, c Command, env *Env, kind uint8, metadata []byte) error {
	dir, remove, err := r.folder()
	if err != nil {
		return err
	}
	defer remove()
	path := filepath.Join(dir, "metadata_file")
	text := base64.StdEncoding.EncodeToString(metadata)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write metadata: %w", err)
	}
	env = env.Clone()
	env.Set("metadata_type", strconv.Itoa(int(kind)))
	env.Set("metadata_file", path)
	env.Set("script_type", "tls-crypt-v2-verify")
	return r.Ask(ctx, c, env)
}
