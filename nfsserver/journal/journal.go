package journal

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// Suffixes for the names of files next to a journal.
const (
	nextSuffix    = ".new"     // will become the journal
	damagedSuffix = ".damaged" // the last void journal, for an administrator to inspect
)

// maxFileLen is the maximum length in bytes of a file.
const maxFileLen = 256 << 20

// allocationStep is the number of bytes that a file has allocated after its end, if the file
// system can do that: if another file fills the disk, Appends continue for a long time.
const allocationStep = 1 << 20

// Errors from Append and Replace.
var (
	// ErrTooLong reports that a record is longer than MaxRecord, or that the records in one
	// Append are longer than 1 MiB.
	ErrTooLong = errors.New("the record is too long for a journal")
	// ErrFull reports that the file would become longer than 256 MiB. An Append fails until
	// Replace has made the file shorter.
	ErrFull   = errors.New("the journal is full until it is replaced by a shorter one")
	ErrClosed = errors.New("the journal is closed")

	errVoid = errors.New("the journal is damaged")
)

// Found is the content of a file that Open has opened.
type Found struct {
	// Records are in the order of their Appends.
	Records [][]byte
	// Torn is set if a crash has truncated the last Append. Its records, which Append never
	// reported as stored, are not in Records.
	Torn bool
	// Void is set if the file is damaged in its middle or has another header: Records is empty.
	// Every Append fails until Replace has succeeded; until then each Open finds the same. The
	// file also has a name with the suffix .damaged, instead of an earlier such file.
	Void bool
}

// A Journal is an open journal. Its methods are safe for concurrent use.
type Journal struct {
	disk       disk
	name       string
	headerText string // header's text

	ioMu         sync.Mutex // held during writes and syncs, and locked before mu
	file         file
	salt         salt
	allocatedEnd int64 // end of the allocated bytes

	mu    sync.Mutex
	size  int64
	batch *batch // Appends join it until the write begins
	err   error  // from the last write or sync, until Replace succeeds
}

// A batch contains the records from Appends that one unit stores.
type batch struct {
	body []byte
	done chan struct{} // closed when err is set
	err  error
}

// Open opens the journal with a name in a directory, which must exist, or creates an empty one.
// header is one line of text, which names the content and its format. The caller must prevent
// others from opening the same journal; a file that another process has open is an error. When
// held is over, nothing is written any more, and every call fails with tenure.ErrOver. Errors name
// the file.
func Open(dir, name, header string, held *tenure.Tenure) (*Journal, Found, error) {
	d := directory{dir, held}
	j, found, err := openJournal(d, name, header)
	if err != nil {
		return nil, Found{}, fmt.Errorf("the journal %s cannot be opened: %w", d.filePath(name), err)
	}
	return j, found, nil
}

func openJournal(d disk, name, header string) (*Journal, Found, error) {
	j := &Journal{disk: d, name: name, headerText: header}
	f, err := d.openFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return j.createEmpty()
	}
	if err != nil {
		return nil, Found{}, err
	}
	b, err := readContent(f)
	if err != nil {
		return nil, Found{}, errors.Join(err, f.Close())
	}
	at, ok := j.parseHeader(b)
	if !ok {
		return j.adoptDamaged(f, int64(len(b)))
	}
	records, start, end, void := j.salt.readUnits(b[at:])
	if void {
		return j.adoptDamaged(f, int64(len(b)))
	}
	j.file, j.size = f, int64(at+end)
	if err = j.repairTail(b[at+start : at+end]); err != nil {
		return nil, Found{}, errors.Join(err, f.Close())
	}
	j.allocateAhead()
	return j, Found{Records: records, Torn: at+end < len(b)}, nil
}

// repairTail puts an existing file, and its name, on stable storage, and truncates a torn unit.
// An earlier process may have ended after a failed sync: then the last unit can be read, but
// only bytes that are written again reach the disk.
func (j *Journal) repairTail(last []byte) error {
	if _, err := j.file.WriteAt(last, j.size-int64(len(last))); err != nil {
		return err
	}
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	return j.disk.syncNames()
}

// readContent returns a file's bytes.
func readContent(f file) ([]byte, error) {
	n, err := f.fileSize()
	if err != nil {
		return nil, err
	}
	if n > maxFileLen {
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

// headerLine returns the file's first line.
func (j *Journal) headerLine() string {
	sum := binary.BigEndian.AppendUint32(nil, j.salt.checksum([]byte(j.headerText)))
	return j.headerText + " " + hex.EncodeToString(j.salt[:]) + hex.EncodeToString(sum) + "\n"
}

// parseHeader sets the salt from b's first line, and returns the line's length.
func (j *Journal) parseHeader(b []byte) (n int, ok bool) {
	at := len(j.headerText) + 1
	n = len(j.headerLine())
	if len(b) < n {
		return 0, false
	}
	if _, err := hex.Decode(j.salt[:], b[at:at+2*len(j.salt)]); err != nil {
		return 0, false
	}
	return n, string(b[:n]) == j.headerLine()
}

// adoptDamaged names a damaged file for inspection. The file remains the journal until it is
// replaced: after a crash, the next Open must not find a journal that is empty but not void.
func (j *Journal) adoptDamaged(f file, size int64) (*Journal, Found, error) {
	if err := j.disk.linkFile(j.name, j.name+damagedSuffix); err != nil {
		return nil, Found{}, errors.Join(err, f.Close())
	}
	j.file, j.size, j.err = f, size, j.wrapError("written until it is replaced as a whole", errVoid)
	return j, Found{Void: true}, nil
}

// createEmpty writes a journal's first file.
func (j *Journal) createEmpty() (*Journal, Found, error) {
	if err := j.replaceFile(nil); err != nil {
		if j.file != nil {
			_ = j.file.Close()
		}
		return nil, Found{}, err
	}
	return j, Found{}, nil
}

// Append stores records, and returns once they are on stable storage. After a crash either all
// or none of an Append's records are found. Appends that wait at the same time share a write
// and a sync; their order is undefined. After ErrTooLong and ErrFull nothing is stored. After
// another error it is unknown whether the records are stored, and every Append fails until
// Replace succeeds.
func (j *Journal) Append(records ...[]byte) error {
	var body []byte
	for _, r := range records {
		if len(r) > MaxRecord {
			return ErrTooLong
		}
		body = appendRecord(body, r)
	}
	if len(body) > maxBodyLen {
		return ErrTooLong
	}
	if len(body) == 0 {
		return nil
	}
	b, first := j.joinBatch(body)
	if first {
		j.ioMu.Lock()
		b.err = j.writeBatch(b)
		j.ioMu.Unlock()
		close(b.done)
	}
	<-b.done
	return b.err
}

// joinBatch adds records to a waiting batch, or to a new one, which the caller must write.
func (j *Journal) joinBatch(body []byte) (b *batch, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b = j.batch; b != nil && len(b.body)+len(body) <= maxBodyLen {
		b.body = append(b.body, body...)
		return b, false
	}
	j.batch = &batch{body: body, done: make(chan struct{})}
	return j.batch, true
}

// writeBatch stores a batch. The caller holds j.ioMu.
func (j *Journal) writeBatch(b *batch) error {
	j.mu.Lock()
	if j.batch == b {
		j.batch = nil // later Appends wait for the next sync
	}
	at, err := j.size, j.err
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if at+unitHeadLen+int64(len(b.body)) > maxFileLen {
		return j.wrapError("written", ErrFull)
	}
	unit := j.salt.appendUnit(make([]byte, 0, unitHeadLen+len(b.body)), b.body)
	if _, err = j.file.WriteAt(unit, at); err == nil {
		err = j.file.Sync()
	}
	if err = j.recordWrite(unit, err); err == nil {
		j.allocateAhead() // this may take long, with j.mu not held
	}
	return err
}

// recordWrite records the result of writing a unit.
func (j *Journal) recordWrite(unit []byte, err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.err = j.wrapError("written until it is replaced as a whole", err)
		return j.err
	}
	j.size += int64(len(unit))
	return nil
}

// allocateAhead allocates the bytes after the file's end when half of them are in use. It is
// not a failure if that is impossible. The caller holds j.ioMu, or is the journal's only user.
func (j *Journal) allocateAhead() {
	if j.allocatedEnd-j.size >= allocationStep/2 {
		return
	}
	switch err := j.file.allocateBytes(j.size, allocationStep); {
	case err == nil:
		j.allocatedEnd = j.size + allocationStep
	case errors.Is(err, errors.ErrUnsupported):
		j.allocatedEnd = math.MaxInt64 // it is impossible for every Append
	}
}

// Replace writes a new file with the records that the function returns, and replaces the old
// file with it. Every Append either comes before the call to the function, and is only in the
// old file, or goes to the new file. The function must therefore return everything worth
// keeping from all Appends, including Appends that have not returned yet. Appends wait in the
// meantime: the function must not wait for one. After an error the old file may still be the
// journal; Appends fail if they did before, or if a power failure could bring the old file
// back.
func (j *Journal) Replace(records func() [][]byte) error {
	j.ioMu.Lock()
	defer j.ioMu.Unlock()
	j.mu.Lock()
	err := j.err
	j.mu.Unlock()
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err = j.replaceFile(records()); err != nil {
		return j.wrapError("replaced", err)
	}
	return nil
}

// wrapError returns an error that names the file, with a remedy.
func (j *Journal) wrapError(what string, err error) error {
	err = fmt.Errorf("the journal %s cannot be %s: %w", j.disk.filePath(j.name), what, err)
	if errors.Is(err, ErrTooLong) || errors.Is(err, ErrFull) || errors.Is(err, errVoid) || errors.Is(err, tenure.ErrOver) {
		return err
	}
	return fmt.Errorf("%w: free some space, or check the disk", err)
}

// replaceFile replaces the journal with a new file that contains records. The caller holds
// j.ioMu, or is the journal's only user.
func (j *Journal) replaceFile(records [][]byte) error {
	next := &Journal{disk: j.disk, name: j.name, headerText: j.headerText}
	if err := next.createFile(records); err != nil {
		return err
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.salt, j.allocatedEnd = next.file, next.salt, next.allocatedEnd
	// The new file is the journal now, even if a power failure brings back the old file: an
	// Append to the old file would be lost.
	err := j.disk.syncNames()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.size, j.err = next.size, nil
	if err != nil {
		j.err = j.wrapError("written until it is replaced as a whole", err)
	}
	return err
}

// createFile writes a whole file, and names it as the journal. After an error it removes the
// unnamed file, which would use space on a full disk.
func (j *Journal) createFile(records [][]byte) (err error) {
	_, _ = rand.Read(j.salt[:]) // never fails
	f, err := j.disk.createFile(j.name + nextSuffix)
	if err != nil {
		return err
	}
	if err = j.writeRecords(f, records); err == nil {
		j.file = f
		j.allocateAhead()
		err = f.Sync()
	}
	if err == nil {
		err = j.disk.renameFile(j.name+nextSuffix, j.name)
	}
	if err != nil {
		_ = f.Close()
		_ = j.disk.removeFile(j.name + nextSuffix)
		return err
	}
	return nil
}

// writeRecords writes the header and units with records to a file. It truncates the rest of an
// earlier file that a crash has left.
func (j *Journal) writeRecords(f file, records [][]byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	b := []byte(j.headerLine())
	var body []byte
	flush := func() error {
		if len(body) > 0 {
			b = j.salt.appendUnit(b, body)
		}
		if j.size+int64(len(b)) > maxFileLen {
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
		if len(body)+recordHeadLen+len(r) > maxBodyLen {
			if err := flush(); err != nil {
				return err
			}
		}
		body = appendRecord(body, r)
	}
	return flush()
}

// Size returns the file's length in bytes.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// Close closes the file after an Append in progress. Later Appends fail with ErrClosed.
func (j *Journal) Close() error {
	j.ioMu.Lock()
	defer j.ioMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.err, ErrClosed) {
		return nil
	}
	j.err = ErrClosed
	return j.file.Close()
}
