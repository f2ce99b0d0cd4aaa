// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxFile bounds a configuration file, inline blocks included, in bytes.
	maxFile = 16 << 20
	// maxIncludes is the deepest nesting of `config`, as OpenVPN's.
	maxIncludes = 10
	// maxRead bounds what one Read reads with all its includes, in bytes.
	maxRead = 64 << 20
)

// loader follows includes. `cd` changes what later relative paths mean, as in
// OpenVPN, which changes its folder on the spot.
type loader struct {
	cd   string
	left int
}

// Read reads a configuration file and those it includes. Paths in it are
// relative to the working folder, not to the file. What is wrong with a line is
// kept with it for Check; the error is about reading the file itself.
func Read(path string) ([]Line, error) {
	r := &loader{left: maxRead}
	return r.file(path, 1)
}

// FromArgs reads options as they stand on OpenVPN's command line, "--status",
// "F", "10", "--config", "server.conf"; a single argument without dashes is a
// configuration file. The error is about reading a file.
func FromArgs(args []string) ([]Line, error) {
	if len(args) == 1 && !strings.HasPrefix(args[0], "--") {
		return Read(args[0])
	}
	r := &loader{left: maxRead}
	var out []Line
	for i := 0; i < len(args); {
		l := Line{File: CommandLine, Number: i + 1, Option: printable(bareName(args[i]))}
		if !strings.HasPrefix(args[i], "--") {
			l.fault = &fault{"it stands where an option is expected", "write two dashes in front of an option's name"}
		}
		for i++; i < len(args) && !strings.HasPrefix(args[i], "--"); i++ {
			l.Args = append(l.Args, args[i])
		}
		if len(l.Args) >= maxArgs && l.fault == nil {
			_, l.fault = checked(append([]string{l.Option}, l.Args...))
		}
		out = append(out, l)
		if l.Option == "cd" && len(l.Args) == 1 {
			r.cd = joinPath(r.cd, l.Args[0])
		}
		if l.Option != "config" || len(l.Args) != 1 || l.fault != nil {
			continue
		}
		lines, err := r.file(l.Args[0], 1)
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	return out, nil
}

func (r *loader) file(path string, depth int) ([]Line, error) {
	path = joinPath(r.cd, path)
	text, err := readFile(path, min(maxFile, r.left))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	r.left -= len(text)
	lines := Parse(path, string(text))
	var out []Line
	for _, l := range lines {
		switch {
		case l.fault != nil || len(l.Args) != 1:
		case l.Option == "cd":
			r.cd = joinPath(r.cd, l.Args[0])
		case l.Option == "config":
			more, fault := r.include(l, depth)
			l.fault = fault
			out = append(append(out, l), more...)
			continue
		}
		out = append(out, l)
	}
	return out, nil
}

func (r *loader) include(l Line, depth int) ([]Line, *fault) {
	if depth >= maxIncludes {
		return nil, &fault{fmt.Sprintf("files include each other %d deep", maxIncludes), "a file must not include itself"}
	}
	more, err := r.file(l.Args[0], depth+1)
	if err != nil {
		return nil, &fault{fmt.Sprintf("%v", errors.Unwrap(err)), "paths are relative to the working folder, not to this file"}
	}
	return more, nil
}

// readFile returns a file's content, which has limit bytes at most.
func readFile(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return b, nil
}

// joinPath returns path as seen from the working folder when dir has been
// changed into.
func joinPath(dir, path string) string {
	if dir == "" || path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
