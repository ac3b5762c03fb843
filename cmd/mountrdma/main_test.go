package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		assert.Regexp(t, `^mountrdma \S+ `+runtime.Version()+` linux/\w+\n$`, mustRun(t, arg), arg)
	}
}

func TestUsageErrors(t *testing.T) {
	const url = "nfs://127.0.0.1/x"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, `unknown command "nosuch" for "mountrdma"`},
		{[]string{"ls"}, "ls needs a URL: nfs://SERVER[:PORT]/EXPORT/PATH or SERVER:/EXPORT/PATH"},
		{[]string{"cat", "/etc/passwd"}, `"/etc/passwd" is not a URL: write nfs://SERVER[:PORT]/EXPORT/PATH, or SERVER:/EXPORT/PATH`},
		{[]string{"rm", "nfs://h:x/e"}, `"nfs://h:x/e": "x" is not a port: write a number from 1 to 65535`},
		{[]string{"ls", "--crc=maybe", url}, `invalid argument "maybe" for "--crc" flag: not one of auto, on, off`},
		{[]string{"ls", "--inline=1000", url}, "--inline 1000 is not between 1024 and 262144"},
		{[]string{"ls", "--credits=0", url}, "--credits 0 is not between 1 and 4096"},
		{[]string{"ls", "--timeout=1ms", url}, "--timeout is below 100ms"},
		{[]string{"ls", "--uid=-2", url}, "--uid -2 is not between -1 and 4294967295"},
		{[]string{"cp", url}, "cp needs a source and a destination: SRC... DST"},
		{[]string{"cp", "a", "b"}, "neither a nor b is a URL: use cp(1) for local files"},
		{[]string{"cp", url, "b", "c"}, "neither b nor c is a URL: use cp(1) for local files"},
		{[]string{"cp", "a/f", "b/f", url}, "a/f and b/f would become the same file"},
		{[]string{"cp", "", url}, "an empty path names no file"},
		{[]string{"cp", "--jobs=0", "a", url}, "--jobs 0 is not between 1 and 256"},
		{[]string{"info"}, "info needs one server: SERVER[:PORT]"},
		{[]string{"info", "h/e"}, `"h/e" is not a server: write SERVER[:PORT], without a path`},
		{[]string{"doctor"}, "doctor needs one server: SERVER[:PORT], SERVER:/EXPORT or a URL"},
		{[]string{"ping", "-c", "0", "h"}, "--count 0 is not between 1 and 10000000"},
		{[]string{"bridge"}, "bridge needs one server: SERVER[:PORT]"},
		{[]string{"bridge", "--listen=", "h"}, "--listen needs an address, such as 127.0.0.1:2049"},
		{[]string{"bench", url, url}, "bench needs one URL: nfs://SERVER[:PORT]/EXPORT/PATH"},
		{[]string{"bench", url, "--op=fly"}, `invalid argument "fly" for "--op" flag: not one of read, write, randread, randwrite, getattr, readdirplus, open, null`},
		{[]string{"bench", url, "--block=0"}, "--block 0 is not between 1 and 67108864"},
		{[]string{"bench", url, "--connections=0"}, "--connections 0 is not between 1 and 10000"},
		{[]string{"bench", url, "--idle=-1"}, "--idle -1 is not between 0 and 10000"},
		{[]string{"bench", url, "--time=0s"}, "--time must be more than 0"},
	} {
		status, stdout, stderr := runCommand(t, tt.args...)
		assert.Equal(t, cli.ExitUsage, status, tt.args)
		assert.Empty(t, stdout, tt.args)
		assert.Equal(t, "mountrdma: "+tt.want+"\n", stderr)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{
		{"--help"},
		{"ls", "--help"},
		{"stat", "--help"},
		{"cat", "--help"},
		{"cp", "--help"},
		{"rm", "--help"},
		{"mkdir", "--help"},
		{"info", "--help"},
		{"doctor", "--help"},
		{"ping", "--help"},
		{"bench", "--help"},
		{"bridge", "--help"},
	} {
		out := mustRun(t, args...)
		for _, flag := range []string{"--crc", "--markers", "--no-extensions", "--inline", "--credits", "--timeout", "--uid", "--gid", "--record"} {
			assert.Contains(t, out, flag, args)
		}
		for line := range strings.Lines(out) {
			assert.LessOrEqual(t, len(line), 120, line)
		}
	}
}
