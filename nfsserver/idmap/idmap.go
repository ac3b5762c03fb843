package idmap

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/lookupcache"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// A Kind is the kind of a number or name.
type Kind uint8

// Values of Kind.
const (
	User Kind = iota
	Group
)

// A Database is a user database. Its methods may take long, and may be called concurrently.
// found is false if there is no such user or group, or if the database returns another name.
type Database interface {
	Name(kind Kind, id uint32) (name string, found bool, err error)
	ID(kind Kind, name string) (id uint32, found bool, err error)
	User(name string) (u Account, found bool, err error)
}

// An Account is a user on this host.
type Account struct {
	UID, GID uint32
	Groups   []uint32 // the user's groups, which must not be changed
}

// A Config configures a Map.
type Config struct {
	Rules

	// Database is nil for the host's database.
	Database Database

	// Log receives database errors; nil means no log.
	Log *slog.Logger
}

// A Map translates numbers and owner strings in one domain, and principals to users. It limits
// its database lookups, gives each client address a share of the limit, and caches the replies.
// A Map is safe for concurrent use. A nil *Map knows only numbers in digits.
type Map struct {
	rules    atomic.Pointer[Rules]
	database Database
	lookups  *fairshare.Places // running lookups, abandoned or not
	names    *lookupcache.Answers[fairshare.Name, idQuery, []byte]
	numbers  *lookupcache.Answers[fairshare.Name, nameQuery, maybeID]
	accounts *lookupcache.Answers[fairshare.Name, string, maybeAccount]
}

type idQuery struct {
	kind Kind
	id   uint32
}

type nameQuery struct {
	kind Kind
	name string
}

// A maybeAccount is an Account, if the user exists.
type maybeAccount struct {
	Account
	ok bool
}

// A maybeID is a number, if the number exists.
type maybeID struct {
	id uint32
	ok bool
}

// Local limits, the same as for lookups of users' groups (package exportset).
const (
	maxLookups    = 16               // running
	maxWaits      = 256              // outstanding
	maxAnswers    = 8192             // cached replies for each direction
	lookupTimeout = 5 * time.Second  // for one lookup
	freshTime     = time.Minute      // before a reply is looked up again
	staleTime     = 30 * time.Minute // for which a reply is used while a lookup runs, or while the database is down
	retryTime     = 3 * time.Second  // without a lookup after an error
	freshUserTime = 10 * time.Minute // before a principal's user is looked up again
	maxName       = 255              // in bytes
)

// New returns a Map. The caller must call Close.
func New(c Config) *Map {
	if c.Database == nil {
		c.Database = newHost()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	m := &Map{database: c.Database, lookups: fairshare.NewPlaces(maxLookups)}
	m.rules.Store(&c.Rules)
	waits := fairshare.NewPlaces(maxWaits)
	limits := lookupcache.Limits{
		Time: lookupTimeout, AtOnce: maxWaits, Kept: maxAnswers, Fresh: freshTime, None: freshTime, Fail: retryTime, Stale: staleTime,
	}
	failed := &errorLog{log: c.Log}
	m.names = lookupcache.New(lookupcache.Config[fairshare.Name, idQuery, []byte]{
		Ask: m.lookUpName, Take: waits.Take, Give: waits.Give, Limits: limits,
		Failed: func(q idQuery, err error) { failed.logError("id", q.id, err) },
	})
	m.numbers = lookupcache.New(lookupcache.Config[fairshare.Name, nameQuery, maybeID]{
		Ask: m.lookUpID, Take: waits.Take, Give: waits.Give, Limits: limits,
		Failed: func(q nameQuery, err error) { failed.logError("name", q.name, err) },
	})
	limits.Fresh = freshUserTime
	m.accounts = lookupcache.New(lookupcache.Config[fairshare.Name, string, maybeAccount]{
		Ask: m.lookUpUser, Take: waits.Take, Give: waits.Give, Limits: limits,
		Failed: func(q string, err error) { failed.logError("user", q, err) },
	})
	return m
}

// An errorLog logs database errors, but not each error: clients decide how many lookups there
// are.
type errorLog struct {
	log *slog.Logger

	mu   sync.Mutex
	next time.Time // time of the next log line
}

// logError logs a lookup's error.
func (f *errorLog) logError(key string, value any, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.next) {
		return
	}
	f.next = now.Add(retryTime)
	f.log.Warn("user database does not respond; calls that need owner names wait; check the host's user database", key, value, "err", err)
}

// CheckDomain returns an error if a string cannot be the domain in owner strings, because it is
// not a DNS domain name.
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
	m.accounts.Close()
}

// SetRules replaces the rules, and discards all cached replies.
func (m *Map) SetRules(r Rules) {
	m.rules.Store(&r)
	m.Forget()
}

// Forget discards all cached replies.
func (m *Map) Forget() {
	m.names.Forget()
	m.numbers.Forget()
	m.accounts.Forget()
}

// Principal returns a principal's user for a client. The result is not ok if the principal has
// no user: it belongs to another realm, has more than one component or a machine's name, or is
// unknown to the database. Only the list for the method Static can make a principal the
// superuser. Principal may wait, as Owner; it must not be called on a nil Map.
func (m *Map) Principal(ctx context.Context, client netip.Addr, p gss.Principal) (u Account, ok bool, err error) {
	r := m.rules.Load()
	for _, method := range r.activeMethods() {
		name := r.userFor(method, &p)
		if name == "" {
			continue
		}
		a, err := m.accounts.Of(ctx, fairshare.PartyOfIP(client), name)
		if err != nil {
			return Account{}, false, err
		}
		if a.ok && (a.UID != 0 || method == Static) {
			return a.Account, true, nil
		}
	}
	return Account{}, false, nil
}

// Owner returns the owner string for a number for a client, which must not be changed:
// name@domain, or b with the digits if the number has no name. Owner waits until ctx ends for a
// name that was not looked up recently; the error then comes from ctx or from the database.
func (m *Map) Owner(ctx context.Context, client netip.Addr, kind Kind, id uint32, b []byte) ([]byte, error) {
	if m != nil && m.rules.Load().Domain != "" {
		owner, err := m.names.Of(ctx, fairshare.PartyOfIP(client), idQuery{kind, id})
		if err != nil || owner != nil {
			return owner, err
		}
	}
	return strconv.AppendUint(b, uint64(id), 10), nil
}

// ID returns the number for an owner string. The result is not ok if the string represents no
// number: it is neither a decimal number without leading zeros nor a known name in the domain.
// ID may wait, as Owner.
func (m *Map) ID(ctx context.Context, client netip.Addr, kind Kind, owner []byte) (id uint32, ok bool, err error) {
	if id, ok = parseDigits(owner); ok || m == nil {
		return id, ok, nil
	}
	at := bytes.LastIndexByte(owner, '@')
	domain := m.rules.Load().Domain
	if at < 0 || domain == "" || !strings.EqualFold(string(owner[at+1:]), domain) || !isPlainName(owner[:at]) {
		return 0, false, nil
	}
	f, err := m.numbers.Of(ctx, fairshare.PartyOfIP(client), nameQuery{kind, string(owner[:at])})
	return f.id, f.ok, err
}

// parseDigits returns the number in a decimal string without leading zeros. The largest number
// means "unchanged" to hosts.
func parseDigits(owner []byte) (uint32, bool) {
	n, err := strconv.ParseUint(string(owner), 10, 32)
	return uint32(n), err == nil && isValidID(n) && (owner[0] != '0' || len(owner) == 1) && owner[0] != '+'
}

// lookUpName looks up the owner string for a number.
func (m *Map) lookUpName(ctx context.Context, party fairshare.Name, q idQuery) (owner []byte, none bool, err error) {
	name, ok, err := runLookup(ctx, m, party, func() (string, bool, error) { return m.database.Name(q.kind, q.id) })
	if err != nil || !ok || !isPlainName([]byte(name)) {
		return nil, err == nil, err
	}
	return []byte(name + "@" + m.rules.Load().Domain), false, nil
}

// lookUpID looks up the number for a name.
func (m *Map) lookUpID(ctx context.Context, party fairshare.Name, q nameQuery) (f maybeID, none bool, err error) {
	id, ok, err := runLookup(ctx, m, party, func() (uint32, bool, error) { return m.database.ID(q.kind, q.name) })
	return maybeID{id, ok}, err == nil && !ok, err
}

// lookUpUser looks up a user.
func (m *Map) lookUpUser(ctx context.Context, party fairshare.Name, q string) (a maybeAccount, none bool, err error) {
	u, ok, err := runLookup(ctx, m, party, func() (Account, bool, error) { return m.database.User(q) })
	return maybeAccount{u, ok}, err == nil && !ok, err
}

// runLookup performs a lookup. A lookup may depend on a remote server, may hang and cannot be
// canceled, so runLookup abandons the lookup when ctx ends.
func runLookup[A any](ctx context.Context, m *Map, party fairshare.Name, ask func() (A, bool, error)) (result A, ok bool, err error) {
	if err := m.lookups.Acquire(ctx, party); err != nil {
		return result, false, err
	}
	type answer struct {
		result A
		ok     bool
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		defer m.lookups.Give(party)
		var a answer
		a.result, a.ok, a.err = ask()
		done <- a
	}()
	select {
	case a := <-done:
		return a.result, a.ok, a.err
	case <-ctx.Done():
		return result, false, context.Cause(ctx)
	}
}
