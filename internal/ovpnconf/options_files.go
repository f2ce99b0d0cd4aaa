// SPDX-License-Identifier: Apache-2.0

package ovpnconf

func fileOptions() []OptionDoc {
	t := TopicFiles
	return []OptionDoc{
		{Name: "config", Topic: t, Args: "FILE", Min: 1, Max: 1, Place: InFile | InClientFile, client: clientConfig,
			Text: "reads another file here, at most 10 deep; relative to the working folder"},
		{Name: "ignore-unknown-option", Topic: t, Args: "NAME...", Min: 1, Max: maxArgs - 1, read: readIgnoreUnknown,
			Text: "unknown options of these names are ignored from here on; those that the gateway knows are read, so that xdp- options can stand in a file that OpenVPN reads too"},
	}
}

func readIgnoreUnknown(r *reader, l Line) answer {
	for _, n := range l.Args {
		r.tolerated[bareName(n)] = true
	}
	return fine
}
