package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// newMountCommand returns a mount with default flags and one -o.
func newMountCommand(t *testing.T, list string) *mountCommand {
	t.Helper()
	a := newApp(nil, nil)
	a.newRoot() // sets the default values of the shared flags
	m := &mountCommand{app: a, opts: a.mountOptions()}
	require.NoError(t, m.opts.Parse(list, false))
	return m
}

// TestSafeOptions checks that a mount ignores devices and set-user-ID bits by
// default.
func TestSafeOptions(t *testing.T) {
	for list, want := range map[string][2]bool{"": {true, true}, "defaults,rw": {true, true}, "dev": {true, false}, "suid": {false, true}} {
		m := newMountCommand(t, list)
		c := m.fuseConfig(new(session), new(nfsclient.FS))
		assert.Equal(t, want, [2]bool{c.NoSUID, c.NoDev}, "-o %s", list)
	}
}

// TestOptionHelp checks that the help contains the help for -o.
func TestOptionHelp(t *testing.T) {
	a := newApp(nil, nil)
	a.newRoot()
	assert.Contains(t, mustRun(t, "--help"), a.mountOptions().Help())
}

// TestSpec checks sources of mounts. R8267-6.3-2, R8267-9-1: the default port is
// 20049.
func TestSpec(t *testing.T) {
	for spec, want := range map[string]location{
		"h:/":                         {server: server{host: "h", port: "20049"}, path: "/"},
		"h:/x":                        {server: server{host: "h", port: "20049"}, path: "/x"},
		"h:/x//y/./z/":                {server: server{host: "h", port: "20049"}, path: "/x/y/z", dir: true},
		"h:/%41 b?c:/d":               {server: server{host: "h", port: "20049"}, path: "/%41 b?c:/d"},
		"10.0.0.1:/x":                 {server: server{host: "10.0.0.1", port: "20049"}, path: "/x"},
		"h:2050:/x":                   {server: server{host: "h", port: "2050"}, path: "/x"},
		"[::1]:/x":                    {server: server{host: "::1", port: "20049"}, path: "/x"},
		"[fe80::1%eth0]:/x":           {server: server{host: "fe80::1%eth0", port: "20049"}, path: "/x"},
		"2001:db8::1:/x":              {server: server{host: "2001:db8::1", port: "20049"}, path: "/x"},
		"a,b:/x,y":                    {server: server{list: "a:20049,b:20049", host: "a", port: "20049"}, path: "/x,y"},
		"a:/x,b:/y":                   {server: server{host: "a", port: "20049"}, path: "/x,b:/y"},
		"a:2050,[::1]:/x":             {server: server{list: "a:2050,[::1]:20049", host: "a", port: "2050"}, path: "/x"},
		"nfs://h:2050/x?mountport=99": {server: server{host: "h", port: "2050", mountPort: 99}, path: "/x"},
		"nfs://[::1]/a%20b/":          {server: server{host: "::1", port: "20049"}, path: "/a b", dir: true},
	} {
		got, err := parseURL(spec, false)
		require.NoError(t, err, spec)
		assert.Equal(t, want, got, spec)
		assert.True(t, isURL(spec))
	}
	for spec, want := range map[string]string{
		"server":      `"server" is not a URL: write nfs://SERVER[:PORT]/EXPORT/PATH, or SERVER:/EXPORT/PATH`,
		"/dev/sda1":   `"/dev/sda1" is not a URL: write nfs://SERVER[:PORT]/EXPORT/PATH, or SERVER:/EXPORT/PATH`,
		":/x":         `":/x": the server is missing: write its name or address`,
		"h:99999:/x":  `"h:99999:/x": "99999" is not a port: write a number from 1 to 65535`,
		"nfs://h:0/x": `"nfs://h:0/x": "0" is not a port: write a number from 1 to 65535`,
	} {
		_, err := parseURL(spec, false)
		assert.EqualError(t, err, want, spec)
	}
	assert.Equal(t, cli.ExitUsage, run(t.Context(), []string{":/x", "/mnt"}, new(strings.Builder), new(strings.Builder)))
}
