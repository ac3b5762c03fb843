package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// TestHelperArguments checks the arguments with which libmount calls a helper
// (source, target, then -s, -f, -n and -v separately, then -o), and those that
// users write.
func TestHelperArguments(t *testing.T) {
	for _, tt := range []struct {
		line                            string
		readOnly, sloppy, fake, verbose bool
	}{
		{line: "h:/x /mnt"},
		{line: "h:/x /mnt -o rw"},
		{line: "h:/x /mnt -o ro,_netdev,nofail", readOnly: true},
		{line: "h:/x /mnt -s -f -n -v -o rw,ro -t nfsrdma", readOnly: true, sloppy: true, fake: true, verbose: true},
		{line: "h:/x /mnt -sfnv", sloppy: true, fake: true, verbose: true},
		{line: "h:/x /mnt -n -o rw,noexec,nosuid,nodev,user"},
		{line: "-o ro h:/x /mnt", readOnly: true},
		{line: "-vo ro h:/x /mnt", readOnly: true, verbose: true},
		{line: "h:/x -oro -v /mnt", readOnly: true, verbose: true},
		{line: "h:/x /mnt -o ro -o rw"},
		{line: "h:/x /mnt -s -o frobnicate,ro", readOnly: true, sloppy: true},
	} {
		cmd, m := newApp(nil, nil).newMountHelper()
		cmd.RunE = func(*cobra.Command, []string) error { return nil }
		require.Equal(t, cli.ExitOK, cli.Run(t.Context(), cmd, strings.Fields(tt.line), io.Discard, io.Discard), tt.line)
		assert.Equal(t, "h:/x", m.source, tt.line)
		assert.Equal(t, "h:20049", m.at.addr(), tt.line)
		assert.Equal(t, "/mnt", m.point, tt.line)
		assert.Equal(t, tt.readOnly, m.opts.ReadOnly, tt.line)
		assert.Equal(t, tt.sloppy, m.sloppy, tt.line)
		assert.Equal(t, tt.fake, m.fake, tt.line)
		assert.Equal(t, tt.verbose, m.verbose, tt.line)
	}
}

func TestMountArguments(t *testing.T) {
	for line, want := range map[string]server{
		"h:/x /mnt":                           {host: "h", port: "20049"},
		"-o ro h:/x /mnt":                     {host: "h", port: "20049"},
		"h:/x /mnt -o port=7 --foreground -v": {host: "h", port: "7"},
		"h:8:/x /mnt -o port=7,mountport=9":   {host: "h", port: "7", mountPort: 9},
		"nfs://h:8/x?mountport=1,mounthost=a /mnt -o mounthost=b": {host: "h", port: "8", mountPort: 1, mountHost: "b"},
		"ls:/x ls":    {host: "ls", port: "20049"},
		"umount:/x a": {host: "umount", port: "20049"},
	} {
		cmd := &cobra.Command{Use: "mountrdma"}
		a := newApp(nil, nil)
		a.addFlags(cmd.PersistentFlags())
		m := a.addMountCommand(cmd)
		cmd.AddCommand(a.newLs(), a.newUmount())
		cmd.RunE = func(*cobra.Command, []string) error { return nil }
		require.Equal(t, cli.ExitOK, cli.Run(t.Context(), cmd, strings.Fields(line), io.Discard, io.Discard), line)
		assert.Equal(t, want, m.at.server, line)
	}
}

func TestMountUsageErrors(t *testing.T) {
	helper := func(ctx context.Context, args []string, out, errs io.Writer) int {
		return runHelper(ctx, args, out, errs)
	}
	for _, tt := range []struct {
		run    func(context.Context, []string, io.Writer, io.Writer) int
		status int
		line   string
		want   string
	}{
		{run, 2, "h:/x", "mountrdma: " + errNoOperands.Error()},
		{run, 2, "h:/x a b", "mountrdma: " + errNoOperands.Error()},
		{run, 2, "server", `mountrdma: unknown command "server" for "mountrdma"`},
		{run, 2, "server /mnt", `mountrdma: "server" is not a mount source: write server:/EXPORT /mnt`},
		{run, 2, "server /data /mnt", `mountrdma: "server" is not a mount source: write server:/data, with a colon and as one word`},
		{run, 2, "umoutn /mnt", `mountrdma: unknown command "umoutn" for "mountrdma"; did you mean umount?`},
		{run, 2, "h:/x /mnt -o hrad", `mountrdma: unknown option "hrad": did you mean hard?`},
		{run, 2, "h:/x /mnt --uid=3", "mountrdma: --uid and --gid are not for mounts, where each program acts as its own user"},
		{run, 2, "h:/x /mnt --credits=0", "mountrdma: --credits 0 is not between 1 and 4096"},
		{run, 2, "umount", "mountrdma: umount needs one mount point"},
		{run, 2, "umount /a /b", "mountrdma: umount needs one mount point"},
		{helper, 1, "", "mount.nfsrdma: " + errNoOperands.Error()},
		{helper, 1, "h:/x", "mount.nfsrdma: " + errNoOperands.Error()},
		{helper, 1, "h /mnt", `mount.nfsrdma: "h" is not a URL: write nfs://SERVER[:PORT]/EXPORT/PATH, or SERVER:/EXPORT/PATH`},
		{helper, 1, "h:/x /mnt -o ro,timeo=0", "mount.nfsrdma: option timeo=0: not a number between 1 and 6000"},
		{helper, 1, "h:/x /mnt -q", "mount.nfsrdma: unknown shorthand flag: 'q' in -q: mount.nfsrdma --help lists the flags"},
	} {
		var out, errs strings.Builder
		assert.Equal(t, tt.status, tt.run(t.Context(), strings.Fields(tt.line), &out, &errs), tt.line)
		assert.Empty(t, out.String())
		assert.Equal(t, tt.want+"\n", errs.String())
	}
}

func TestMountHelp(t *testing.T) {
	var out strings.Builder
	require.Zero(t, runHelper(t.Context(), []string{"--help"}, &out, io.Discard))
	assert.Contains(t, out.String(), "mount -t nfsrdma server:/data /mnt")
	assert.Contains(t, out.String(), "acregmin=N")
	assert.Equal(t, mustRun(t, "--help"), mustRun(t))
}
