package journal

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// Suffixes of the names of files beside a journal.
const (
	nextSuffix    = ".new"     // to become the journal
	damagedSuffix = ".damaged" // the last void journal, for an administrator to look at
)

// maxFile is the length in bytes of the longest file.
const maxFile = 256 << 20

// Errors of Append and Replace.
var (
	// ErrTooLong says that a record is longer than MaxRecord, or that the records
	// of one Append are longer than 1 MiB.
	ErrTooLong = errors.New("the record is too long for a journal")
	// ErrFull says that the file would become longer than 256 MiB. An Append
	// fails until Replace has made the file shorter.
	ErrFull   = errors.New("the journal is full until it is replaced by a shorter one")
	ErrClosed = errors.New("the journal is closed")
)

// Found is the content of a file that Open has opened.
type Found struct {
	// Records are in the order of their Appends.
	Records [][]byte
	// Torn says that a crash had cut the last Append short. Its records, of
	// which Append never said that they were stored, are not in Records.
	Torn bool
	// Void says that the file is damaged in its midst or has another header:
	// Records is empty. The file was kept beside the new one, with .damaged
	// behind its name, in place of an earlier such file.
	Void bool
}

// A Journal is an open journal. Its methods are safe for concurrent use.
type Journal struct {
	disk disk
	name string
	text string // of the header

	io   sync.Mutex // held during writes and syncs, and taken before mu
	file file
	salt salt

	mu    sync.Mutex
	size  int64
	batch *batch // Appends join it until the write begins
	err   error  // of the last write or sync, until Replace succeeds
}

// A batch has the records of Appends that one unit stores.
type batch struct {
	body []byte
	done chan struct{} // closed when err is set
	err  error
}

// Open opens the journal of a name in a directory, which must exist, or makes an
// empty one. header is one line of text, which names the content and its form.
// The caller keeps others from opening the same journal; a file that another
// process has open is an error. Errors name the file.
func Open(dir, name, header string) (*Journal, Found, error) {
	j, found, err := open(directory(dir), name, header)
	if err != nil {
		return nil, Found{}, fmt.Errorf("the journal %s cannot be opened: %w", directory(dir).path(name), err)
	}
	return j, found, nil
}

func open(d disk, name, header string) (*Journal, Found, error) {
	j := &Journal{disk: d, name: name, text: header}
	f, err := d.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return j.begin(Found{})
	}
	if err != nil {
		return nil, Found{}, err
	}
	b, err := content(f)
	if err != nil {
		return nil, Found{}, errors.Join(err, f.Close())
	}
	at, ok := j.parseHeader(b)
	if !ok {
		return j.voided(f)
	}
	records, start, end, void := j.salt.read(b[at:])
	if void {
		return j.voided(f)
	}
	j.file, j.size = f, int64(at+end)
	if err = j.settle(b[at+start : at+end]); err != nil {
		return nil, Found{}, errors.Join(err, f.Close())
	}
	return j, Found{Records: records, Torn: at+end < len(b)}, nil
}

// settle puts a file that was found, and its name, on stable storage, and cuts
// off a torn unit. An earlier process may have ended after a sync had failed:
// then the last unit can be read, but only bytes that are written again reach the
// disk.
func (j *Journal) settle(last []byte) error {
	if _, err := j.file.WriteAt(last, j.size-int64(len(last))); err != nil {
		return err
	}
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	return j.disk.sync()
}

// content returns the bytes of a file.
func content(f file) ([]byte, error) {
	n, err := f.size()
	if err != nil {
		return nil, err
	}
	if n > maxFile {
		return nil, fmt.Errorf("%d bytes are too many for a journal: move the file away, and its records are lost", n)
	}
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	got, err := f.ReadAt(b, 0)
	if got == len(b) {
		err = nil // perhaps io.EOF
	}
	return b, err
}

// header returns the first line of the file.
func (j *Journal) header() string {
	sum := binary.BigEndian.AppendUint32(nil, j.salt.sum([]byte(j.text)))
	return j.text + " " + hex.EncodeToString(j.salt[:]) + hex.EncodeToString(sum) + "\n"
}

// parseHeader sets the salt from the first line of b, and returns its length.
func (j *Journal) parseHeader(b []byte) (n int, ok bool) {
	at := len(j.text) + 1
	n = len(j.header())
	if len(b) < n {
		return 0, false
	}
	if _, err := hex.Decode(j.salt[:], b[at:at+2*len(j.salt)]); err != nil {
		return 0, false
	}
	return n, string(b[:n]) == j.header()
}

// voided sets a damaged file aside, and begins an empty journal.
func (j *Journal) voided(damaged file) (*Journal, Found, error) {
	if err := errors.Join(j.disk.rename(j.name, j.name+damagedSuffix), damaged.Close()); err != nil {
		return nil, Found{}, err
	}
	return j.begin(Found{Void: true})
}

// begin writes the first file of a journal.
func (j *Journal) begin(found Found) (*Journal, Found, error) {
	if err := j.replace(nil); err != nil {
		if j.file != nil {
			_ = j.file.Close()
		}
		return nil, Found{}, err
	}
	return j, found, nil
}

// Append stores records, and returns once they are on stable storage. After a
// crash either all or none of one Append are found. Appends that wait at the
// same time share a write and a sync; their order is any. After ErrTooLong and
// ErrFull nothing is stored. Another error means that nobody knows whether the
// records are stored, and that every Append fails until Replace succeeds.
func (j *Journal) Append(records ...[]byte) error {
	var body []byte
	for _, r := range records {
		if len(r) > MaxRecord {
			return ErrTooLong
		}
		body = appendRecord(body, r)
	}
	if len(body) > maxUnit {
		return ErrTooLong
	}
	if len(body) == 0 {
		return nil
	}
	b, first := j.join(body)
	if first {
		j.io.Lock()
		b.err = j.write(b)
		j.io.Unlock()
		close(b.done)
	}
	<-b.done
	return b.err
}

// join adds records to a batch that waits, or to a new one, which the caller
// must write.
func (j *Journal) join(body []byte) (b *batch, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b = j.batch; b != nil && len(b.body)+len(body) <= maxUnit {
		b.body = append(b.body, body...)
		return b, false
	}
	j.batch = &batch{body: body, done: make(chan struct{})}
	return j.batch, true
}

// write stores a batch. The caller holds j.io.
func (j *Journal) write(b *batch) error {
	j.mu.Lock()
	if j.batch == b {
		j.batch = nil // later Appends wait for the next sync
	}
	at, err := j.size, j.err
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if at+unitHead+int64(len(b.body)) > maxFile {
		return j.failed("written", ErrFull)
	}
	unit := j.salt.appendUnit(make([]byte, 0, unitHead+len(b.body)), b.body)
	if _, err = j.file.WriteAt(unit, at); err == nil {
		err = j.file.Sync()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.err = j.failed("written until it is replaced as a whole", err)
		return j.err
	}
	j.size = at + int64(len(unit))
	return nil
}

// Replace writes a new file with the records that the function returns, and puts
// that file in place of the old one. Every Append comes either before the call of
// the function, and is in the old file alone, or goes to the new file. The
// function must therefore return everything worth keeping that Appends were
// given, including Appends that have not returned yet. Appends wait meanwhile: the
// function must not wait for one. After an error the old file may still be the
// journal; Appends fail if they did before, or if a power failure could bring
// the old file back.
func (j *Journal) Replace(records func() [][]byte) error {
	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	err := j.err
	j.mu.Unlock()
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err = j.replace(records()); err != nil {
		return j.failed("replaced", err)
	}
	return nil
}

// failed returns an error that names the file, with a remedy.
func (j *Journal) failed(what string, err error) error {
	err = fmt.Errorf("the journal %s cannot be %s: %w", j.disk.path(j.name), what, err)
	if errors.Is(err, ErrTooLong) || errors.Is(err, ErrFull) {
		return err
	}
	return fmt.Errorf("%w: make room, or check the disk", err)
}

// replace makes a new file with records the journal. The caller holds j.io, or
// has the journal alone.
func (j *Journal) replace(records [][]byte) error {
	next := &Journal{disk: j.disk, name: j.name, text: j.text}
	if err := next.create(records); err != nil {
		return err
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.salt = next.file, next.salt
	// The new file is the journal now, even if a power failure brings back the
	// old file: an Append to the old file would be lost.
	err := j.disk.sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.size, j.err = next.size, nil
	if err != nil {
		j.err = j.failed("written until it is replaced as a whole", err)
	}
	return err
}

// create writes a whole file, and names it as the journal. After an error the
// unnamed file is gone: it would take room on a full disk.
func (j *Journal) create(records [][]byte) (err error) {
	_, _ = rand.Read(j.salt[:]) // never fails
	f, err := j.disk.create(j.name + nextSuffix)
	if err != nil {
		return err
	}
	if err = j.fill(f, records); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.disk.rename(j.name+nextSuffix, j.name)
	}
	if err != nil {
		_ = f.Close()
		_ = j.disk.remove(j.name + nextSuffix)
		return err
	}
	j.file = f
	return nil
}

// fill writes the header and units of records to a file, in place of the rest of
// an earlier file that a crash has left.
func (j *Journal) fill(f file, records [][]byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	b := []byte(j.header())
	var body []byte
	flush := func() error {
		if len(body) > 0 {
			b = j.salt.appendUnit(b, body)
		}
		if j.size+int64(len(b)) > maxFile {
			return ErrFull
		}
		_, err := f.WriteAt(b, j.size)
		j.size += int64(len(b))
		b, body = b[:0], body[:0]
		return err
	}
	for _, r := range records {
		if len(r) > MaxRecord {
			return ErrTooLong
		}
		if len(body)+recordHead+len(r) > maxUnit {
			if err := flush(); err != nil {
				return err
			}
		}
		body = appendRecord(body, r)
	}
	return flush()
}

// Size returns the length of the file in bytes.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// Close closes the file. An Append under way ends first; later ones fail with
// ErrClosed.
func (j *Journal) Close() error {
	j.io.Lock()
	defer j.io.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.err, ErrClosed) {
		return nil
	}
	j.err = ErrClosed
	return j.file.Close()
}
