package main

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// TestIdmapFile checks that --idmap-domain wins over the file of --idmap, that a
// reload applies the file, and that a wrong file changes nothing.
func TestIdmapFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "idmapd.conf")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("[General]\nDomain = example.org\n")
	o := serveOptions{idmapFile: file}
	rules, err := o.idmapRules()
	require.NoError(t, err)
	assert.Equal(t, []any{"example.org", []string{"EXAMPLE.ORG"}}, []any{rules.Domain, rules.Realms})
	o.idmapDomain = "other.example"
	rules, err = o.idmapRules()
	require.NoError(t, err)
	assert.Equal(t, []any{"other.example", []string{"OTHER.EXAMPLE"}}, []any{rules.Domain, rules.Realms})

	o.idmapDomain = ""
	o.owners = idmap.New(idmap.Config{Rules: rules})
	defer o.owners.Close()
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	owner := func() string {
		b, err := o.owners.Owner(t.Context(), netip.MustParseAddr("192.0.2.1"), idmap.User, 0, nil)
		require.NoError(t, err)
		return string(b)
	}
	assert.Equal(t, "root@other.example", owner())
	o.reloadIdmap(log)
	assert.Equal(t, "root@example.org", owner())
	write("[General]\nDomain = a b\nx")
	o.reloadIdmap(log)
	assert.Equal(t, "root@example.org", owner())
	assert.Contains(t, text.String(), "the name mapping rules are unchanged")
	assert.Contains(t, text.String(), "idmapd.conf:2: ")
	assert.Contains(t, text.String(), "idmapd.conf:3: ")

	status, _, stderr := runCommand(t, "serve", "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--tcp", "", "--idmap", file, t.TempDir())
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "idmapd.conf:2: ")
	status, _, stderr = runCommand(t, "serve", "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--tcp", "", "--idmap", file+"x", t.TempDir())
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "cannot be read (no such file or directory): correct its name or its permissions")
}

// fakeChangingUser is a database in which a user gets another number.
type fakeChangingUser struct {
	fakeUserDatabase
	uid uint32
}

func (d *fakeChangingUser) User(string) (idmap.Account, bool, error) {
	return idmap.Account{UID: d.uid}, true, nil
}

// TestIdmapForgets checks that a reload drops the users that the database has given,
// also if the file is wrong: they may have lost rights.
func TestIdmapForgets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "idmapd.conf")
	o := serveOptions{idmapFile: file}
	database := &fakeChangingUser{uid: 1001}
	o.owners = idmap.New(idmap.Config{Rules: idmap.Rules{Realms: []string{"R"}}, Database: database})
	defer o.owners.Close()
	uid := func() uint32 {
		u, ok, err := o.mapPrincipal(t.Context(), netip.MustParseAddr("192.0.2.1"), gss.Principal{Name: []string{"alice"}, Realm: "R"})
		require.NoError(t, err)
		require.True(t, ok)
		return u.UID
	}
	assert.EqualValues(t, 1001, uid())
	database.uid = 1002
	assert.EqualValues(t, 1001, uid())
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	o.reloadIdmap(slog.New(slog.DiscardHandler))
	assert.EqualValues(t, 1002, uid())
}
