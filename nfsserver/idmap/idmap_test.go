package idmap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os/user"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var client = netip.MustParseAddr("192.0.2.1")

// A fakeDatabase knows user and group 1000 as alice and staff. The methods wait
// for open, if open is set.
type fakeDatabase struct {
	mu    sync.Mutex
	asked []any
	err   error
	open  chan struct{}
}

func (d *fakeDatabase) countQuery(q any) error {
	if d.open != nil {
		<-d.open
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, q)
	return d.err
}

func (d *fakeDatabase) Name(kind Kind, id uint32) (string, bool, error) {
	err := d.countQuery(id)
	switch {
	case id == 7:
		return "a:b", true, err
	case id != 1000:
		return "", false, err
	case kind == Group:
		return "staff", true, err
	}
	return "alice", true, err
}

func (d *fakeDatabase) ID(kind Kind, name string) (uint32, bool, error) {
	err := d.countQuery(name)
	return 1000, kind == User && name == "alice" || kind == Group && name == "staff", err
}

func (d *fakeDatabase) User(name string) (Account, bool, error) {
	err := d.countQuery("user " + name)
	switch name {
	case "alice":
		return Account{UID: 1000, GID: 100, Groups: []uint32{100, 27}}, true, err
	case "root", "toor":
		return Account{}, true, err
	case "backup":
		return Account{UID: 34, GID: 34}, true, err
	}
	return Account{}, false, err
}

// newMap returns a Map with d, which is closed with the test.
func newMap(t *testing.T, d *fakeDatabase) *Map {
	m := New(Config{Rules: Rules{Domain: "example.org"}, Database: d})
	t.Cleanup(m.Close)
	return m
}

// TestOwner checks owner strings for users and groups, with and without a name, and that a
// second query costs neither a lookup nor an allocation.
func TestOwner(t *testing.T) {
	d := new(fakeDatabase)
	for _, tt := range []struct {
		m    *Map
		kind Kind
		id   uint32
		want string
	}{
		{newMap(t, d), User, 1000, "alice@example.org"},
		{newMap(t, d), Group, 1000, "staff@example.org"},
		{newMap(t, d), User, 1001, "1001"},
		{newMap(t, d), User, 7, "7"}, // its name is no name
		{nil, User, 1000, "1000"},
		{nil, Group, 4294967294, "4294967294"},
	} {
		buf := make([]byte, 0, 16)
		for range 2 {
			got, err := tt.m.Owner(t.Context(), client, tt.kind, tt.id, buf)
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(got))
		}
		ctx := context.Background()
		assert.Zero(t, testing.AllocsPerRun(10, func() { _, _ = tt.m.Owner(ctx, client, tt.kind, tt.id, buf) }))
	}
	assert.Len(t, d.asked, 4, "each once")
}

// TestID checks the meaning of owner strings: numbers as they are, names in the domain, and
// nothing else. The domain's case does not matter, the name's does (R8881-14.3-1).
func TestID(t *testing.T) {
	d := new(fakeDatabase)
	m := newMap(t, d)
	for _, tt := range []struct {
		m     *Map
		kind  Kind
		owner string
		id    uint32
		ok    bool
	}{
		{m, User, "alice@example.org", 1000, true},
		{m, User, "alice@EXAMPLE.org", 1000, true},
		{m, User, "ALICE@example.org", 0, false},
		{m, Group, "staff@example.org", 1000, true},
		{m, Group, "alice@example.org", 0, false},
		{m, User, "bob@example.org", 0, false},
		{m, User, "alice@example.com", 0, false},
		{m, User, "alice", 0, false},
		{m, User, "@example.org", 0, false},
		{m, User, "al:ice@example.org", 0, false},
		{m, User, "al\x00ice@example.org", 0, false},
		{m, User, strings.Repeat("a", 256) + "@example.org", 0, false},
		{m, User, "", 0, false},
		{m, User, "0@example.org", 0, false},
		{m, User, "1000@example.org", 0, false},
		{m, Group, "1000@example.org", 0, false},
		{m, User, "-h@example.org", 0, false},
		{m, User, "+alice@example.org", 0, false},
		{m, User, "alice@example.org@example.org", 0, false},
		{m, User, "12", 12, true},
		{m, User, "0", 0, true},
		{m, User, "012", 0, false},
		{m, User, "+12", 0, false},
		{m, User, "4294967295", 0, false},
		{nil, User, "12", 12, true},
		{nil, User, "alice@example.org", 0, false},
	} {
		id, ok, err := tt.m.ID(t.Context(), client, tt.kind, []byte(tt.owner))
		require.NoError(t, err)
		assert.Equal(t, tt.ok, ok, tt.owner)
		if ok {
			assert.Equal(t, tt.id, id, tt.owner)
		}
	}
	assert.Equal(t, []any{"alice", "ALICE", "staff", "alice", "bob"}, d.asked, "once each, and nothing strange")
}

// TestDown checks that a database that fails or hangs causes an error within a limit, that a
// reply known before is used in the meantime, and that no goroutine stays.
func TestDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(fakeDatabase)
		m := New(Config{Rules: Rules{Domain: "example.org"}, Database: d})
		defer m.Close()
		_, err := m.Owner(t.Context(), client, User, 1000, nil)
		require.NoError(t, err)
		d.open = make(chan struct{})
		time.Sleep(2 * freshTime)
		start := time.Now()
		owner, err := m.Owner(t.Context(), client, User, 1000, nil)
		assert.NoError(t, err)
		assert.Equal(t, "alice@example.org", string(owner))
		assert.Zero(t, time.Since(start))
		_, err = m.Owner(t.Context(), client, User, 1, nil)
		assert.Error(t, err)
		_, _, err = m.ID(t.Context(), client, User, []byte("alice@example.org"))
		assert.Error(t, err)
		assert.LessOrEqual(t, time.Since(start), 2*lookupTimeout)
		d.err = errors.New("down")
		close(d.open)
		time.Sleep(2 * retryTime)
		_, err = m.Owner(t.Context(), client, User, 1, nil)
		assert.ErrorIs(t, err, d.err)
	})
}

// TestFailuresLogged checks that a client cannot fill the log by questions that a
// broken database does not respond.
func TestFailuresLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		m := New(Config{Rules: Rules{Domain: "example.org"}, Database: &fakeDatabase{err: errors.New("down")}, Log: slog.New(slog.NewTextHandler(&text, nil))})
		defer m.Close()
		ask := func(name string) {
			_, _, err := m.ID(t.Context(), client, User, []byte(name+"@example.org"))
			assert.Error(t, err)
		}
		for i := range 50 {
			ask(fmt.Sprint("user", i))
		}
		assert.Equal(t, 1, strings.Count(text.String(), "\n"))
		time.Sleep(retryTime)
		ask("later")
		assert.Equal(t, 2, strings.Count(text.String(), "\n"))
	})
}

// TestHost queries this host's database.
func TestHost(t *testing.T) {
	m := New(Config{Rules: Rules{Domain: "d"}})
	defer m.Close()
	owner, err := m.Owner(t.Context(), client, User, 0, nil)
	require.NoError(t, err)
	root, err := user.LookupId("0")
	require.NoError(t, err)
	assert.Equal(t, root.Username+"@d", string(owner))
	id, ok, err := m.ID(t.Context(), client, User, owner)
	assert.NoError(t, err)
	assert.True(t, ok)
	assert.Zero(t, id)
	owner, err = m.Owner(t.Context(), client, Group, 0, nil)
	require.NoError(t, err)
	id, ok, err = m.ID(t.Context(), client, Group, owner)
	assert.NoError(t, err)
	assert.True(t, ok)
	assert.Zero(t, id)
	_, ok, err = m.ID(t.Context(), client, User, []byte("no-such-user@d"))
	assert.NoError(t, err)
	assert.False(t, ok)
	owner, err = m.Owner(t.Context(), client, User, 3999999999, nil)
	assert.NoError(t, err)
	assert.Equal(t, "3999999999", string(owner))
}

func TestCheckDomain(t *testing.T) {
	for domain, ok := range map[string]bool{
		"example.org": true, "localdomain": true, "a-b.c_d": true, "": false, "a..b": false, "a@b": false,
		"a b": false, "\x00": false, strings.Repeat("a", 64): false, strings.Repeat("a.", 127) + "a": false,
	} {
		assert.Equal(t, ok, CheckDomain(domain) == nil, "%q", domain)
	}
}
