package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

func writeExports(t testing.TB, dir, text string) string {
	t.Helper()
	name := filepath.Join(dir, "exports")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestExportsCheck(t *testing.T) {
	name := writeExports(t, t.TempDir(), "# ours\n/srv/a  -rw,async  *.example(no_root_squash) 192.0.2.0/255.255.255.0\n\"/srv/b c\" host (ro,fsid=7,exclusive)\n")
	status, stdout, stderr := runCommand(t, "exports", "check", name)
	assert.Equal(t, cli.ExitOK, status)
	assert.Equal(t, `/srv/a *.example(rw,async,secure,no_root_squash,no_all_squash,no_subtree_check,sec=sys)
/srv/a 192.0.2.0/24(rw,async,secure,root_squash,no_all_squash,no_subtree_check,sec=sys)
/srv/b\040c host(ro,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=sys)
/srv/b\040c *(ro,sync,secure,root_squash,no_all_squash,no_subtree_check,exclusive,fsid=7,sec=sys)
`, stdout)
	assert.Equal(t, name+`:3:17: "(ro,fsid=7,exclusive)" has no client before it, and so applies to every host; `+
		`write client(ro,fsid=7,exclusive) without a blank, or *(ro,fsid=7,exclusive) (warning)`+"\n", stderr)
	again, stdout2, stderr2 := runCommand(t, "exports", "check", writeExports(t, t.TempDir(), stdout))
	assert.Equal(t, []any{cli.ExitOK, stdout, ""}, []any{again, stdout2, stderr2}, "the output is an equivalent exports file")
}

// TestExportsCheckFlavors checks that each flavour of a client has a line.
func TestExportsCheckFlavors(t *testing.T) {
	name := writeExports(t, t.TempDir(), "/srv/a *(sec=krb5p,rw,sec=krb5:sys,ro)\n")
	status, stdout, stderr := runCommand(t, "exports", "check", name)
	assert.Equal(t, []any{cli.ExitOK, ""}, []any{status, stderr})
	assert.Equal(t, `/srv/a *(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=krb5p)
/srv/a *(ro,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=krb5)
/srv/a *(ro,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=sys)
`, stdout)
}

// TestServeWithoutKeytab checks that a daemon does not start with exports that need
// a key which it does not have, and says which (R2623-3.1-1).
func TestServeWithoutKeytab(t *testing.T) {
	dir, keytab := t.TempDir(), filepath.Join(t.TempDir(), "keytab")
	run := func(args ...string) string {
		status, stdout, stderr := runCommand(t, append([]string{"serve", "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--tcp", "", "--keytab", keytab}, args...)...)
		assert.Equal(t, cli.ExitError, status)
		assert.Empty(t, stdout)
		return stderr
	}
	const remedy = ": add the key with ktadd (/usr/share/doc/nfsrdma/security.md), name another file with --keytab, or write sec=sys\n"
	file := writeExports(t, t.TempDir(), dir+" *(rw) a.example(sec=sys:krb5p) b.example(sec=krb5)\n")
	assert.Equal(t, "nfsrdmad: "+dir+" is exported to * with sec=krb5i, but the keytab "+keytab+" cannot be read (no such file or directory)"+remedy,
		run("--sec", "sys:krb5i", dir))
	writeKeytab(t, keytab, "EXAMPLE.ORG", "host", "a.example")
	assert.Equal(t, "nfsrdmad: "+dir+" is exported to * with sec=krb5i, but the keytab "+keytab+" has no nfs/ key; it has host/a.example"+remedy, run("--sec", "sys:krb5i", dir))
	status, _, stderr := runCommand(t, "serve", "--sec", "sys:foo", dir)
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stderr, `--sec: security "foo" is none of sys, krb5, krb5i, krb5p and none`)
	status, _, stderr = runCommand(t, "serve", "--sec", "none", "--exports", file)
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stderr, "--sec and --xprtsec are for DIR")
}

func TestExportsCheckErrors(t *testing.T) {
	name := writeExports(t, t.TempDir(), "/srv/a *(rw,foo)\nsrv *\n")
	status, stdout, stderr := runCommand(t, "exports", "check", name)
	assert.Equal(t, cli.ExitError, status)
	assert.Empty(t, stdout)
	assert.Equal(t, name+":1:13: unknown option \"foo\"; correct it (nfsrdma-exports(5) has them all)\n"+
		name+":2:1: \"srv\" is not an absolute path; a line begins with a directory, written from / on\n", stderr)

	status, _, stderr = runCommand(t, "exports", "check", filepath.Join(name, "none"))
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "cannot be read (not a directory): correct its name or its permissions\n")
	status, _, _ = runCommand(t, "exports", "check", name, name)
	assert.Equal(t, cli.ExitUsage, status)
	status, _, _ = runCommand(t, "exports", "check") // the default file, which may be present
	assert.NotEqual(t, cli.ExitUsage, status)
}

// TestLaxerWarnings checks that exports below others are compared only within a file system.
func TestLaxerWarnings(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/hr"), 0o755))
	warnings := func(text string) []string {
		f, err := exports.Parse("exports", []byte(text))
		require.NoError(t, err)
		return laxerWarnings(f)
	}
	list := warnings(dir + " *(sec=sys:krb5p)\n" + dir + "/a/hr *(sec=krb5p)")
	require.Len(t, list, 1)
	assert.Contains(t, list[0], "exports:2: "+dir+"/a/hr is stricter than "+dir+" above it: * has sec=sys there")
	assert.Empty(t, warnings("/ *(sec=sys:krb5p)\n/proc *(sec=krb5p)"), "another file system")
	assert.Empty(t, warnings(dir+" *(sec=sys:krb5p)\n"+dir+"/none *(sec=krb5p)"), "no directory")
}

// TestLaxerWarningsInTime checks that storage which does not respond delays no start, and that only
// one goroutine waits for it.
func TestLaxerWarningsInTime(t *testing.T) {
	var stuck sync.Mutex
	stuck.Lock() // an earlier comparison still waits
	f, err := exports.Parse("file", []byte("/ *(rw)\n/etc *(ro)\n"))
	require.NoError(t, err)
	assert.Equal(t, []string{"whether nested exports are stricter than those above them is unknown, because storage does not respond: check the disks or servers of the exports"},
		directoryWarnings(f, &stuck))
	stuck.Unlock()
	assert.Contains(t, strings.Join(directoryWarnings(f, &stuck), "\n"), "/etc is stricter than / above it")
	stuck.Lock() // the comparison has ended
}
