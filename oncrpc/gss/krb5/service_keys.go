package krb5

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

const (
	service         = "nfs"
	maxKeytab       = 1 << 20     // in bytes: some 10,000 keys
	rereadInterval  = time.Second // for tickets whose key is missing
	maxTriedKeys    = 64          // for one ticket
	maxListedOthers = 5           // names in an error
)

// serviceKeys are a keytab's nfs/ keys.
type serviceKeys struct {
	path     string
	now      func() time.Time
	fileLock chan struct{} // holds one value, which the goroutine that reads the file takes
	lastRead time.Time     // guarded by fileLock, as is file
	file     fs.FileInfo   // as it was read; nil if it could not be opened
	keys     atomic.Pointer[[]serviceKey]
}

type serviceKey struct {
	principal gss.Principal
	kvno      uint32
	key       Key
}

func newServiceKeys(path string, now func() time.Time) *serviceKeys {
	k := &serviceKeys{path: path, now: now, fileLock: make(chan struct{}, 1)}
	k.fileLock <- struct{}{}
	return k
}

// reload reads the file. After an error the earlier keys remain.
func (k *serviceKeys) reload(ctx context.Context) error {
	if err := k.lockFile(ctx); err != nil {
		return err
	}
	defer k.unlockFile()
	return k.readFile()
}

// reloadForTicket reads the file, unless it was read within the last second and has not
// changed since. A change within the file timestamp's resolution may go unnoticed for
// that long.
func (k *serviceKeys) reloadForTicket(ctx context.Context) error {
	if err := k.lockFile(ctx); err != nil {
		return err
	}
	defer k.unlockFile()
	if since := k.now().Sub(k.lastRead); since >= 0 && since < rereadInterval && !k.hasChanged() {
		return nil
	}
	return k.readFile()
}

// hasChanged reports whether the current file is another one, or differs.
func (k *serviceKeys) hasChanged() bool {
	now, err := os.Stat(k.path)
	if err != nil {
		return false
	}
	return k.file == nil || !os.SameFile(now, k.file) || now.Size() != k.file.Size() || !now.ModTime().Equal(k.file.ModTime())
}

// lockFile waits until no other goroutine reads the file.
func (k *serviceKeys) lockFile(ctx context.Context) error {
	select {
	case <-k.fileLock:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *serviceKeys) unlockFile() { k.fileLock <- struct{}{} }

func (k *serviceKeys) readFile() error {
	k.lastRead, k.file = k.now(), nil
	f, err := os.Open(k.path)
	if err != nil {
		return fmt.Errorf("keytab: %w", err)
	}
	defer f.Close()
	if k.file, err = f.Stat(); err != nil { // before the content
		return fmt.Errorf("keytab: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeytab+1))
	if err != nil {
		return fmt.Errorf("keytab: %w", err)
	}
	if len(b) > maxKeytab {
		return fmt.Errorf("the keytab %s is longer than %d bytes", k.path, maxKeytab)
	}
	entries, err := parseKeytab(b)
	if err != nil {
		return fmt.Errorf("the keytab %s: %w", k.path, err)
	}
	keys, err := k.selectKeys(entries)
	if err == nil {
		k.keys.Store(&keys)
	}
	return err
}

// selectKeys returns the nfs/ keys with known types, or an error that lists which others
// the keytab has.
func (k *serviceKeys) selectKeys(entries []keytabEntry) ([]serviceKey, error) {
	var keys []serviceKey
	var others, old []string
	for _, e := range entries {
		if e.principal.Name[0] != service || len(e.principal.Name) != 2 {
			others = append(others, serviceText(e.principal.Name))
			continue
		}
		key, err := newKey(e.enctype, e.value)
		if err != nil {
			old = append(old, err.Error())
			continue
		}
		keys = append(keys, serviceKey{e.principal, e.kvno, key})
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case len(old) > 0:
		return nil, fmt.Errorf("the keytab %s has no %s/ key that can be used: %s", k.path, service, joinDistinct(old))
	case len(others) > 0:
		return nil, fmt.Errorf("the keytab %s has no %s/ key; it has %s", k.path, service, joinDistinct(others))
	default:
		return nil, fmt.Errorf("the keytab %s is empty", k.path)
	}
}

// joinDistinct returns the sorted, distinct values as an English enumeration.
func joinDistinct[T cmp.Ordered](values []T) string {
	slices.Sort(values)
	var words []string
	for _, v := range slices.Compact(values) {
		words = append(words, fmt.Sprint(v))
	}
	if more := len(words) - maxListedOthers; more > 0 {
		words = append(words[:maxListedOthers:maxListedOthers], fmt.Sprintf("%d more", more))
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// firstPrincipal returns the first key's principal.
func (k *serviceKeys) firstPrincipal() gss.Principal { return (*k.keys.Load())[0].principal }

// listRealms returns the keys' realms, in file order.
func (k *serviceKeys) listRealms() (list []string) {
	for _, s := range *k.keys.Load() {
		if !slices.Contains(list, s.principal.Realm) {
			list = append(list, s.principal.Realm)
		}
	}
	return list
}

// A keyError reports that none of the keytab's keys opens a ticket.
type keyError struct {
	code errorCode
	text string
}

func (e *keyError) Error() string { return e.text }

// openTicket decrypts r's ticket. It returns the matching key's principal, because the
// names in r are unprotected. If no key matches, it reads the keytab again and tries once
// more.
func (k *serviceKeys) openTicket(ctx context.Context, r apReq) (gss.Principal, []byte, error) {
	keys := k.keys.Load()
	if server, part, ok := tryKeys(*keys, r); ok {
		return server, part, nil
	}
	if err := k.reloadForTicket(ctx); err != nil {
		return gss.Principal{}, nil, &keyError{codeNoKey, err.Error()}
	}
	if now := k.keys.Load(); now != keys {
		keys = now
		if server, part, ok := tryKeys(*keys, r); ok {
			return server, part, nil
		}
	}
	return gss.Principal{}, nil, explainFailure(*keys, r)
}

// tryKeys tries each key with the ticket's enctype, first those with its name and key
// version: a KDC may know the server by other names, and a ticket need not have a
// version.
func tryKeys(keys []serviceKey, r apReq) (gss.Principal, []byte, bool) {
	tried := 0
	for _, first := range []bool{true, false} {
		for _, s := range keys {
			if s.key.Enctype != r.ticket.enctype || first != (s.matchesService(r) && s.kvno == r.ticket.kvno) {
				continue
			}
			if part, err := s.key.decrypt(usageTicket, r.ticket.cipher); err == nil {
				return s.principal, part, true
			}
			if tried++; tried == maxTriedKeys {
				return gss.Principal{}, nil, false
			}
		}
	}
	return gss.Principal{}, nil, false
}

// matchesService reports whether the key belongs to the ticket's service.
func (s serviceKey) matchesService(r apReq) bool {
	return s.principal.Realm == r.realm && slices.Equal(s.principal.Name, r.service)
}

const remedy = "add it with ktadd (it is read again without a restart)"

// explainFailure returns why no key opens the ticket.
func explainFailure(keys []serviceKey, r apReq) *keyError {
	ticket := "a client has a ticket for " + serviceText(r.service)
	var names, types []string
	var versions []uint32
	for _, s := range keys {
		names = append(names, principalText(s.principal))
		if !s.matchesService(r) {
			continue
		}
		types = append(types, s.key.Enctype.String())
		if s.key.Enctype == r.ticket.enctype {
			versions = append(versions, s.kvno)
		}
	}
	switch {
	case types == nil:
		return &keyError{codeNotUs, fmt.Sprintf("%s@%s; the keytab has %s: %s", ticket, escapeName(r.realm), joinDistinct(names), remedy)}
	case versions == nil:
		return &keyError{codeNoKey, fmt.Sprintf("%s of type %v; the keytab has %s: %s", ticket, r.ticket.enctype, joinDistinct(types), remedy)}
	case r.ticket.hasKVNO && !slices.Contains(versions, r.ticket.kvno):
		return &keyError{codeKeyVersion, fmt.Sprintf("%s with key version %d; the keytab has %s: %s", ticket, r.ticket.kvno, joinDistinct(versions), remedy)}
	default:
		return &keyError{codeIntegrity, ticket + " that the keytab's key does not open: the ticket is forged, or the key is not the KDC's"}
	}
}
