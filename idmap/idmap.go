package idmap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/lookupcache"
)

// A Kind is the kind of a number or name.
type Kind uint8

// The values of Kind.
const (
	User Kind = iota
	Group
)

// A Database is a user database. Its methods may take long, and may be called
// concurrently. found is false if there is no such user or group.
type Database interface {
	Name(kind Kind, id uint32) (name string, found bool, err error)
	ID(kind Kind, name string) (id uint32, found bool, err error)
}

// A Config configures a Map.
type Config struct {
	// Domain is the part of owner strings behind the @. It must not be empty.
	Domain string

	// Database is nil for the host's database.
	Database Database

	// Log receives errors of the database; nil means no log.
	Log *slog.Logger
}

// A Map translates numbers and owner strings of one domain. A Map asks the
// database with a bound, gives each client address a share of the bound, and
// caches the answers. A Map is safe for concurrent use. A nil *Map knows only
// numbers in digits.
type Map struct {
	domain   string
	database Database
	looking  *fairshare.Places // of running lookups, abandoned or not
	names    *lookupcache.Answers[fairshare.Name, number, []byte]
	numbers  *lookupcache.Answers[fairshare.Name, name, found]
}

type number struct {
	kind Kind
	id   uint32
}

type name struct {
	kind Kind
	name string
}

// found is a number, if the number exists.
type found struct {
	id uint32
	ok bool
}

// Limits of our own: the limits of the lookups of users' groups (package
// realm).
const (
	maxLookups = 16               // running
	maxWaits   = 256              // outstanding
	maxKept    = 8192             // answers of each direction
	lookupTime = 5 * time.Second  // for one answer
	fresh      = time.Minute      // before an answer is asked for again
	stale      = 30 * time.Minute // as long as an answer is used while the database is asked, or is down
	failTime   = 3 * time.Second  // without a question after an error
	maxName    = 255              // bytes of a name
)

// New returns a Map, which Close ends.
func New(c Config) *Map {
	if c.Database == nil {
		c.Database = host{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	m := &Map{domain: c.Domain, database: c.Database, looking: fairshare.NewPlaces(maxLookups)}
	waits := fairshare.NewPlaces(maxWaits)
	limits := lookupcache.Limits{
		Time: lookupTime, AtOnce: maxWaits, Kept: maxKept, Fresh: fresh, None: fresh, Fail: failTime, Stale: stale,
	}
	failed := &failures{log: c.Log}
	m.names = lookupcache.New(lookupcache.Config[fairshare.Name, number, []byte]{
		Ask: m.askName, Take: waits.Take, Give: waits.Give, Limits: limits,
		Failed: func(q number, err error) { failed.note("id", q.id, err) },
	})
	m.numbers = lookupcache.New(lookupcache.Config[fairshare.Name, name, found]{
		Ask: m.askNumber, Take: waits.Take, Give: waits.Give, Limits: limits,
		Failed: func(q name, err error) { failed.note("name", q.name, err) },
	})
	return m
}

// failures logs errors of the database, but not each error: clients decide how
// many questions there are.
type failures struct {
	log *slog.Logger

	mu   sync.Mutex
	next time.Time // of the next line
}

// note logs the error of a question.
func (f *failures) note(key string, value any, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.next) {
		return
	}
	f.next = now.Add(failTime)
	f.log.Warn("the user database does not answer: calls that need names of owners wait; check the host's user database", key, value, "err", err)
}

// CheckDomain returns an error for a string that cannot be the domain of owner
// strings: the string is not a DNS domain name.
func CheckDomain(domain string) error {
	for label := range strings.SplitSeq(domain, ".") {
		plain := len(label) > 0 && len(label) <= 63
		for _, c := range label {
			letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
			plain = plain && letter
		}
		if !plain || len(domain) > 253 {
			return fmt.Errorf("%q is not a DNS domain name, such as example.org", domain)
		}
	}
	return nil
}

// Close stops the lookups.
func (m *Map) Close() {
	m.names.Close()
	m.numbers.Close()
}

// Owner returns the owner string of a number for a client, which must not be
// changed: name@domain, or b with the digits of a number without a name. Owner
// waits until ctx ends for a name that was not asked for lately; the error then
// is the error of ctx or of the database.
func (m *Map) Owner(ctx context.Context, client netip.Addr, kind Kind, id uint32, b []byte) ([]byte, error) {
	if m != nil {
		owner, err := m.names.Of(ctx, fairshare.PartyOfIP(client), number{kind, id})
		if err != nil || owner != nil {
			return owner, err
		}
	}
	return strconv.AppendUint(b, uint64(id), 10), nil
}

// ID returns the number that an owner string stands for. The result is not ok
// if the string stands for no number: the string is neither a decimal number
// without leading zeros nor a known name in the domain. ID may wait, as Owner.
func (m *Map) ID(ctx context.Context, client netip.Addr, kind Kind, owner []byte) (id uint32, ok bool, err error) {
	if id, ok = digits(owner); ok || m == nil {
		return id, ok, nil
	}
	at := strings.LastIndexByte(string(owner), '@')
	if at < 0 || !strings.EqualFold(string(owner[at+1:]), m.domain) || !plain(owner[:at]) {
		return 0, false, nil
	}
	f, err := m.numbers.Of(ctx, fairshare.PartyOfIP(client), name{kind, string(owner[:at])})
	return f.id, f.ok, err
}

// digits returns the number that a decimal string without leading zeros is. The
// largest number means "unchanged" to hosts.
func digits(owner []byte) (uint32, bool) {
	n, err := strconv.ParseUint(string(owner), 10, 32)
	return uint32(n), err == nil && n != math.MaxUint32 && (owner[0] != '0' || len(owner) == 1) && owner[0] != '+'
}

// plain reports whether a name may be looked up: user databases are files of
// lines with colons, or servers that such names might reach.
func plain(name []byte) bool {
	if len(name) == 0 || len(name) > maxName {
		return false
	}
	for _, c := range name {
		if c <= ' ' || c == 0x7f || c == ':' || c == '/' || c == ',' {
			return false
		}
	}
	return true
}

// askName looks up the owner string of a number.
func (m *Map) askName(ctx context.Context, of fairshare.Name, q number) (owner []byte, none bool, err error) {
	name, ok, err := look(ctx, m, of, func() (string, bool, error) { return m.database.Name(q.kind, q.id) })
	if err != nil || !ok || !plain([]byte(name)) {
		return nil, err == nil, err
	}
	return []byte(name + "@" + m.domain), false, nil
}

// askNumber looks up the number of a name.
func (m *Map) askNumber(ctx context.Context, of fairshare.Name, q name) (f found, none bool, err error) {
	id, ok, err := look(ctx, m, of, func() (uint32, bool, error) { return m.database.ID(q.kind, q.name) })
	return found{id, ok}, err == nil && !ok, err
}

// look makes a lookup. A lookup may depend on a remote server, may hang and
// cannot be cancelled, so look abandons the lookup when ctx ends.
func look[A any](ctx context.Context, m *Map, of fairshare.Name, ask func() (A, bool, error)) (is A, ok bool, err error) {
	if err := m.looking.Acquire(ctx, of); err != nil {
		return is, false, err
	}
	type answer struct {
		is  A
		ok  bool
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer m.looking.Give(of)
		var a answer
		a.is, a.ok, a.err = ask()
		done <- a
	}()
	select {
	case a := <-done:
		return a.is, a.ok, a.err
	case <-ctx.Done():
		return is, false, context.Cause(ctx)
	}
}

// host is the user database of this host.
type host struct{}

// Name implements Database.
func (host) Name(kind Kind, id uint32) (string, bool, error) {
	digits := strconv.FormatUint(uint64(id), 10)
	if kind == Group {
		g, err := user.LookupGroupId(digits)
		if err != nil {
			return "", false, unknown(err)
		}
		return g.Name, true, nil
	}
	u, err := user.LookupId(digits)
	if err != nil {
		return "", false, unknown(err)
	}
	return u.Username, true, nil
}

// ID implements Database.
func (host) ID(kind Kind, name string) (uint32, bool, error) {
	var digits string
	if kind == Group {
		g, err := user.LookupGroup(name)
		if err != nil {
			return 0, false, unknown(err)
		}
		digits = g.Gid
	} else {
		u, err := user.Lookup(name)
		if err != nil {
			return 0, false, unknown(err)
		}
		digits = u.Uid
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil, err
}

// unknown returns nil for the errors that say that there is no such entry.
func unknown(err error) error {
	_, u := errors.AsType[user.UnknownUserError](err)
	_, uid := errors.AsType[user.UnknownUserIdError](err)
	_, g := errors.AsType[user.UnknownGroupError](err)
	_, gid := errors.AsType[user.UnknownGroupIdError](err)
	if u || uid || g || gid {
		return nil
	}
	return err
}
