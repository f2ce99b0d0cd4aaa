// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestReplayCommand opens recorded sessions of stock OpenVPN by the command
// line and compares what it prints with what is right.
func TestReplayCommand(t *testing.T) {
	long(t)
	expected, err := filepath.Glob("../../internal/replay/testdata/*.expected.json")
	if err != nil || len(expected) < 5 {
		t.Fatalf("recorded sessions: %v, %v", expected, err)
	}
	for _, file := range expected {
		session := strings.TrimSuffix(file, ".expected.json")
		t.Run(filepath.Base(session), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			inner := filepath.Join(t.TempDir(), "inner.pcap")
			out, err := run(mustProgram(t), "replay", "--pcap", session+".pcap", "--keys", session+".json", "--json", "--write-inner", inner)
			if err != nil {
				t.Fatal(err)
			}
			have := *decode[map[string]any](t, out)
			for field, value := range *decode[map[string]any](t, string(want)) {
				if !reflect.DeepEqual(have[field], value) {
					t.Errorf("%s is %v, want %v", field, have[field], value)
				}
			}
			if info, err := os.Stat(inner); err != nil || info.Size() < 100_000 {
				t.Errorf("the file of inner packets: %v, %v", info, err)
			}
		})
	}
}
