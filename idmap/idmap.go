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

	"github.com/nfsrdma/nfsrdma/gss"
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
// concurrently. found is false if there is no such user or group, or if the
// database answers with another name.
type Database interface {
	Name(kind Kind, id uint32) (name string, found bool, err error)
	ID(kind Kind, name string) (id uint32, found bool, err error)
	User(name string) (u Account, found bool, err error)
}

// An Account is a user of this host.
type Account struct {
	UID, GID uint32
	Groups   []uint32 // of the user, which must not be changed
}

// A Config configures a Map.
type Config struct {
	Rules

	// Database is nil for the host's database.
	Database Database

	// Log receives errors of the database; nil means no log.
	Log *slog.Logger
}

// A Map translates numbers and owner strings of one domain, and principals to
// users. A Map asks the database with a bound, gives each client address a share of the bound, and
// caches the answers. A Map is safe for concurrent use. A nil *Map knows only
// numbers in digits.
type Map struct {
	rules    atomic.Pointer[Rules]
	database Database
	looking  *fairshare.Places // of running lookups, abandoned or not
	names    *lookupcache.Answers[fairshare.Name, number, []byte]
	numbers  *lookupcache.Answers[fairshare.Name, name, found]
	accounts *lookupcache.Answers[fairshare.Name, string, account]
}

type number struct {
	kind Kind
	id   uint32
}

type name struct {
	kind Kind
	name string
}

// account is an Account, if the user exists.
type account struct {
	Account
	ok bool
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
	freshUser  = 10 * time.Minute // before a principal's user is asked for again
	maxName    = 255              // bytes of a name
)

// New returns a Map, which Close ends.
func New(c Config) *Map {
	if c.Database == nil {
		c.Database = newHost()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	m := &Map{database: c.Database, looking: fairshare.NewPlaces(maxLookups)}
	m.rules.Store(&c.Rules)
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
	limits.Fresh = freshUser
	m.accounts = lookupcache.New(lookupcache.Config[fairshare.Name, string, account]{
		Ask: m.askUser, Take: waits.Take, Give: waits.Give, Limits: limits,
		Failed: func(q string, err error) { failed.note("user", q, err) },
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
	m.accounts.Close()
}

// SetRules replaces the rules, and forgets all answers of the database.
func (m *Map) SetRules(r Rules) {
	m.rules.Store(&r)
	m.Forget()
}

// Forget forgets all answers of the database.
func (m *Map) Forget() {
	m.names.Forget()
	m.numbers.Forget()
	m.accounts.Forget()
}

// Principal returns the user of a principal for a client. The result is not ok if
// the principal has no user: it is of another realm, has more than one component
// or the name of a machine, or is unknown to the database. Only the list of the
// method Static can make a principal the superuser. Principal may wait, as Owner;
// it must not be asked on a nil Map.
func (m *Map) Principal(ctx context.Context, client netip.Addr, p gss.Principal) (u Account, ok bool, err error) {
	r := m.rules.Load()
	for _, method := range r.methods() {
		name := r.user(method, &p)
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

// Owner returns the owner string of a number for a client, which must not be
// changed: name@domain, or b with the digits of a number without a name. Owner
// waits until ctx ends for a name that was not asked for lately; the error then
// is the error of ctx or of the database.
func (m *Map) Owner(ctx context.Context, client netip.Addr, kind Kind, id uint32, b []byte) ([]byte, error) {
	if m != nil && m.rules.Load().Domain != "" {
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
	at := bytes.LastIndexByte(owner, '@')
	domain := m.rules.Load().Domain
	if at < 0 || domain == "" || !strings.EqualFold(string(owner[at+1:]), domain) || !plain(owner[:at]) {
		return 0, false, nil
	}
	f, err := m.numbers.Of(ctx, fairshare.PartyOfIP(client), name{kind, string(owner[:at])})
	return f.id, f.ok, err
}

// digits returns the number that a decimal string without leading zeros is. The
// largest number means "unchanged" to hosts.
func digits(owner []byte) (uint32, bool) {
	n, err := strconv.ParseUint(string(owner), 10, 32)
	return uint32(n), err == nil && validID(n) && (owner[0] != '0' || len(owner) == 1) && owner[0] != '+'
}

// askName looks up the owner string of a number.
func (m *Map) askName(ctx context.Context, of fairshare.Name, q number) (owner []byte, none bool, err error) {
	name, ok, err := look(ctx, m, of, func() (string, bool, error) { return m.database.Name(q.kind, q.id) })
	if err != nil || !ok || !plain([]byte(name)) {
		return nil, err == nil, err
	}
	return []byte(name + "@" + m.rules.Load().Domain), false, nil
}

// askNumber looks up the number of a name.
func (m *Map) askNumber(ctx context.Context, of fairshare.Name, q name) (f found, none bool, err error) {
	id, ok, err := look(ctx, m, of, func() (uint32, bool, error) { return m.database.ID(q.kind, q.name) })
	return found{id, ok}, err == nil && !ok, err
}

// askUser looks up a user.
func (m *Map) askUser(ctx context.Context, of fairshare.Name, q string) (a account, none bool, err error) {
	u, ok, err := look(ctx, m, of, func() (Account, bool, error) { return m.database.User(q) })
	return account{u, ok}, err == nil && !ok, err
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
