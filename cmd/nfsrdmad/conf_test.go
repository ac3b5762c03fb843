package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

func writeConf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "nfsrdmad.conf")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// TestConf checks which values flags get from a file, and that the command line wins.
func TestConf(t *testing.T) {
	name := writeConf(t, `# a comment
; another
[ports]
listen = "[::1]:20049"   # not a default
tcp =
[nfs]
vers = 4.1, 4.2
nfs4-lease = 20s
[users]
manage-gids = Y
[tls]
tls-strict = off
[ports]
metrics = 127.0.0.1:9849
[rdma]
credits = 7
crc = on
`)
	flags := newServeCommand().Flags()
	require.NoError(t, flags.Parse([]string{"--crc", "off"}))
	_, err := readConf(name, flags)
	require.NoError(t, err)
	for flag, want := range map[string]string{
		"listen": "[::1]:20049", "tcp": "", "vers": "[4.1,4.2]", "nfs4-lease": "20s", "manage-gids": "true", "tls-strict": "false",
		"metrics": "127.0.0.1:9849", "credits": "7", "crc": "off", "register": "off",
	} {
		assert.Equal(t, want, flags.Lookup(flag).Value.String(), flag)
	}
}

// TestConfErrors checks that each error names the file, the line and a remedy, and that the exit
// status is that of wrong arguments.
func TestConfErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[port]\nlisten = :1\n":                           "FILE:1: unknown section [port]: the sections are [ports], [nfs], [standby], [rdma], [users], [tls], [log]",
		"[ports]\n\nport = 1\n":                           "FILE:3: unknown key port in [ports]: nfsrdmad serve --help lists the keys",
		"[ports]\nvers = 3\n":                             "FILE:2: unknown key vers in [ports]: vers belongs to [nfs]",
		"vers = 3\n":                                      "FILE:1: vers is in no section: write it below [SECTION]; vers belongs to [nfs]",
		"[ports]\nlisten\n":                               `FILE:2: "listen" is neither a section nor a key: write [SECTION] or KEY = VALUE`,
		"[ports\nlisten = :1\n":                           `FILE:1: "[ports" is neither a section nor a key: write [SECTION] or KEY = VALUE`,
		"[ports]\ntcp = :1\n[nfs]\n[ports]\ntcp = :2\n":   "FILE:5: tcp has several values: remove all but one",
		"[users]\nmanage-gids = maybe\n":                  "FILE:2: manage-gids = maybe: write yes or no",
		"[rdma]\n# c\ncrc = maybe\n":                      "FILE:3: crc = maybe: not one of auto, on, off",
		"[rdma]\ncredits = many\n":                        `FILE:2: credits = many: strconv.ParseInt: parsing "many": invalid syntax`,
		"[rdma]\ncredits = 0\n":                           "FILE:2: --credits 0 is not between 1 and 4096",
		"[nfs]\nlease = 1ns\n[rdma]\n":                    "FILE:2: --lease 1ns is not between 100ms and 5m0s",
		"[nfs]\nvers = 5\n":                               "FILE:2: --vers 5: the versions are 3, 4.0, 4.1 and 4.2",
		"[tls]\nrequire-encryption = yes\n":               "FILE:2: / is exported to * without krb5p, and --require-encryption rejects unencrypted calls: write sec=krb5p, or give the daemon a certificate for TLS with --tls-cert and --tls-key",
		"[ports]\nlisten = :1\n[log]\nlog-level = loud\n": "FILE:4: log-level = loud: not one of debug, info, warn, error",
	} {
		name := writeConf(t, text)
		status, _, stderr := runCommand(t, "serve", "--config", name, "/")
		assert.Equal(t, cli.ExitUsage, status, text)
		assert.Equal(t, "nfsrdmad: "+want+"\n", strings.ReplaceAll(stderr, name, "FILE"), text)
	}
	status, _, stderr := runCommand(t, "serve", "--config", "/nonexistent/conf", "/")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stderr, "create it, which may be empty")
}

// TestConfKeys checks that each flag of serve is a key in one section, except those that choose what
// is served.
func TestConfKeys(t *testing.T) {
	seen := map[string]bool{
		"config": true, "exports": true, "help": true,
		"ro": true, "clients": true, "no-root-squash": true, "exclusive": true, "sec": true, "xprtsec": true,
	}
	flags := newServeCommand().Flags()
	for _, s := range confSections {
		for _, k := range s.keys {
			assert.False(t, seen[k], "%s is in two sections", k)
			assert.NotNil(t, flags.Lookup(k), k)
			seen[k] = true
		}
	}
	flags.VisitAll(func(f *pflag.Flag) { assert.True(t, seen[f.Name], "%s is in no section", f.Name) })
}

// TestPackagedConf checks that serve accepts the file of the package, also with every line that is a
// comment.
func TestPackagedConf(t *testing.T) {
	text, err := os.ReadFile("../../contrib/package/nfsrdmad.conf")
	require.NoError(t, err)
	all := regexp.MustCompile(`(?m)^#([a-z0-9-]+ = )`).ReplaceAllString(string(text), "$1")
	assert.NotEqual(t, all, string(text))
	for _, text := range []string{string(text), all} {
		_, err := readConf(writeConf(t, text), newServeCommand().Flags())
		assert.NoError(t, err)
	}
}

// TestFormerFlags checks that the service does not start without the flags that an earlier package
// had in another file, or in the environment of its unit: they may require encryption.
func TestFormerFlags(t *testing.T) {
	name := filepath.Join(t.TempDir(), "nfsrdmad")
	check := func(config, text string) error {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return checkFormerFlags(config, []string{"/nonexistent/nfsrdmad", name})
	}
	const tls = "# flags\n NFSRDMAD_TLS=\"--require-encryption\"\n"
	const remedy = " has no effect any more: write its flags into /etc/nfsrdma/nfsrdmad.conf, as nfsrdmad(8) describes, and remove "
	for _, unchanged := range []string{"", "#NFSRDMAD_TLS=\"--tls-cert x\"\n", "NFSRDMAD_FLAGS=\"\"\nNFSRDMAD_PORTS=\nGOGC=50\n"} {
		assert.NoError(t, check(defaultConf, unchanged), unchanged)
	}
	assert.EqualError(t, check(defaultConf, tls), name+":2: NFSRDMAD_TLS"+remedy+name)
	assert.EqualError(t, check("", tls), name+":2: NFSRDMAD_TLS"+remedy+name, "a unit that names variables, but not the file")

	t.Setenv("NFSRDMAD_TLS", "--require-encryption")
	assert.NoError(t, check("", tls), "a unit that passes the variables")
	assert.Error(t, check(defaultConf, tls))
	assert.EqualError(t, check(defaultConf, ""), "the variable NFSRDMAD_TLS of the service's environment"+remedy+"it: systemctl cat nfsrdmad shows where it is set")

	files := formerFlagFiles
	t.Cleanup(func() { formerFlagFiles = files })
	formerFlagFiles = []string{t.TempDir()}
	status, _, stderr := runCommand(t, "serve", "--exports", defaultExports)
	assert.Equal(t, cli.ExitUsage, status, "which systemd does not start again")
	assert.Contains(t, stderr, "cannot be read (is a directory)")
}

// FuzzConf reads any file: an error is reported, and nothing fails otherwise.
func FuzzConf(f *testing.F) {
	f.Add("[ports]\nlisten = :1\n")
	f.Add("[\n=\n\"\"\"\n")
	f.Add("[nfs]\nvers = `4\n'''")
	name := filepath.Join(f.TempDir(), "conf")
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		c, err := readConf(name, newServeCommand().Flags())
		assert.True(t, c != nil || err != nil)
	})
}
