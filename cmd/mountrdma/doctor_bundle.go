package main

import (
	"bytes"
	"context"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
)

// bundleFiles are the files of doctor --bundle, besides the findings.
func bundleFiles() []doctor.BundleFile {
	return []doctor.BundleFile{
		doctor.HostFile(buildinfo.Line("mountrdma", version)),
		{Name: "command.txt", About: "this command line", Read: func(context.Context) ([]byte, error) {
			return []byte(strings.Join(os.Args, " ") + "\n"), nil
		}},
		{Name: "mounts.txt", About: "NFS mounts of this host, and their options", Read: func(context.Context) ([]byte, error) { return linesWith("/proc/self/mountinfo", "nfs") }},
		{Name: "fstab", About: "lines of /etc/fstab about NFS", Kind: doctor.SettingsText, Read: func(context.Context) ([]byte, error) { return linesWith("/etc/fstab", "nfs") }},
		doctor.JournalFile("the latest 5000 lines of mounts in the journal", "-t", "mountrdma", "-t", "mount.nfsrdma"),
	}
}

// linesWith returns the lines of a file that contain a word.
func linesWith(name, word string) ([]byte, error) {
	text, err := os.ReadFile(name)
	var out []byte
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(word)) {
			out = append(out, line...)
		}
	}
	return out, err
}
