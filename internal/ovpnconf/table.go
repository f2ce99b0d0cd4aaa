// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"slices"
	"strings"
)

// Place says where an option may stand.
type Place uint8

// The places. Options of a file may also stand on the command line.
const (
	// InFile: in a server's configuration.
	InFile Place = 1 << iota
	// InClientFile: in a file of client-config-dir or of a client-connect command.
	InClientFile
	// AsBlock: as an inline block too.
	AsBlock
	// InPush: in what a server pushes to its clients.
	InPush
)

// OptionDoc is one row of the table of options.
type OptionDoc struct {
	Name    string
	Aliases []string
	// Topic groups options in the documentation.
	Topic Topic
	// Args are the arguments as a manual writes them.
	Args string
	// Min and Max are the numbers of arguments; Max -1: any.
	Min, Max int
	Place    Place
	// Verdict is the row's verdict when nothing is wrong with the arguments. A
	// honoured option may still be refused for a value; Text says which.
	Verdict Verdict
	// Text says what the option does here, or why it is ignored or refused. It
	// begins with a small letter and has no full stop.
	Text string
	// Remedy is the way out for a refused option.
	Remedy string

	read   func(*reader, Line) answer
	client func(*clientReader, Line) answer
}

// Topic groups options in the documentation.
type Topic string

// The topics, in the order of the documentation.
const (
	TopicNetwork  Topic = "Listening and transport"
	TopicTunnel   Topic = "Tunnel, addresses and routes"
	TopicPush     Topic = "Push and clients"
	TopicTLS      Topic = "Certificates and TLS"
	TopicWrap     Topic = "Control channel wrapping"
	TopicData     Topic = "Data channel"
	TopicTimers   Topic = "Timers and renegotiation"
	TopicAuth     Topic = "User and password"
	TopicScripts  Topic = "Scripts"
	TopicOperate  Topic = "Status, logs, management and the process"
	TopicFiles    Topic = "Configuration files"
	TopicXDP      Topic = "Own options"
	TopicClient   Topic = "Options of clients"
	TopicPlatform Topic = "Other platforms, key stores and standalone commands"
)

// Topics returns the topics in the order of the documentation.
func Topics() []Topic {
	return []Topic{
		TopicXDP, TopicNetwork, TopicTunnel, TopicPush, TopicTLS, TopicWrap, TopicData, TopicTimers,
		TopicAuth, TopicScripts, TopicOperate, TopicFiles, TopicClient, TopicPlatform,
	}
}

// answer is what a handler finds about one line; the zero value is honoured with
// nothing to say.
type answer struct {
	verdict     Verdict
	why, remedy string
}

var fine answer

func note(format string, args ...any) answer {
	return answer{why: fmt.Sprintf(format, args...)}
}

func ignore(format string, args ...any) answer {
	return answer{verdict: Ignored, why: fmt.Sprintf(format, args...)}
}

func refuse(remedy, format string, args ...any) answer {
	return answer{verdict: Refused, why: fmt.Sprintf(format, args...), remedy: remedy}
}

// table is filled at start from the lists of rows and not changed any more.
var (
	table  []OptionDoc
	byName map[string]*OptionDoc
)

func init() {
	table = slices.Concat(
		xdpOptions(), networkOptions(), tunnelOptions(), pushOptions(), tlsOptions(), wrapOptions(), dataOptions(), timerOptions(),
		authOptions(), scriptOptions(), operateOptions(), fileOptions(), clientSideOptions(), platformOptions(),
	)
	byName = make(map[string]*OptionDoc, len(table))
	for i := range table {
		d := &table[i]
		if d.Place == 0 {
			d.Place = InFile
		}
		for _, n := range append([]string{d.Name}, d.Aliases...) {
			if byName[n] != nil {
				panic("ovpnconf: option " + n + " has two rows")
			}
			byName[n] = d
		}
	}
	fillProfileTable()
}

// Table returns all options, by topic. The caller may change the result.
func Table() []OptionDoc { return slices.Clone(table) }

// ignored and refused make rows for options that do nothing, or nothing good,
// whatever their arguments.
func ignored(topic Topic, why string, names ...string) (rows []OptionDoc) {
	for _, n := range names {
		rows = append(rows, OptionDoc{Name: n, Topic: topic, Args: "...", Max: -1, Verdict: Ignored, Text: why, Place: InFile | AsBlock})
	}
	return rows
}

func refused(topic Topic, why, remedy string, names ...string) (rows []OptionDoc) {
	for _, n := range names {
		rows = append(rows, OptionDoc{Name: n, Topic: topic, Args: "...", Max: -1, Verdict: Refused, Text: why, Remedy: remedy, Place: InFile | AsBlock})
	}
	return rows
}

// checkArgs returns what is wrong with the number of arguments or the place.
func (d *OptionDoc) checkArgs(l Line) *answer {
	n := len(l.Args)
	if l.Inline != nil {
		if d.Place&AsBlock == 0 {
			a := refuse(fmt.Sprintf("write it in one line: %s %s", d.Name, d.Args), "it cannot be an inline block")
			return &a
		}
		n = max(1, d.Min)
	}
	if n >= d.Min && (d.Max < 0 || n <= d.Max) {
		return nil
	}
	remedy := fmt.Sprintf("write %s", strings.TrimSpace(d.Name+" "+d.Args))
	if n > d.Max && d.Max > 0 && d.Max < 3 {
		remedy += "; arguments that belong together go into double quotes"
	}
	a := refuse(remedy, "it has %s, and takes %s", plural(len(l.Args), "argument"), span(d.Min, d.Max))
	return &a
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func span(lo, hi int) string {
	switch {
	case hi < 0:
		return fmt.Sprintf("at least %d", lo)
	case hi == 0:
		return "none"
	case lo == hi:
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}

// suggest returns the known option that is nearest to an unknown name, or "".
func suggest(name string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", 1+len(name)/4
	for known := range byName {
		d := distance(strings.ToLower(name), known)
		if d < least || d == least && (best == "" || known < best) {
			best, least = known, d
		}
	}
	return best
}

// distance is the number of inserted, removed and replaced bytes between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
