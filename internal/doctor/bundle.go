package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
)

// maxBundleFile is the maximum size of a file in a bundle; of a longer one, a bundle has the end.
const maxBundleFile = 1 << 20

// maxSecret is the size of text before a bundle's that redact sees: it does not recognize the rest of
// a PEM block.
const maxSecret = 64 << 10

// A BundleFile is a file in a bundle.
type BundleFile struct {
	Name  string // in the archive
	About string // what it contains, for the user
	Kind  TextKind
	Read  func(context.Context) ([]byte, error)
}

// A Report is how the command doctor reports findings.
type Report struct {
	JSON   bool
	Bundle string // file to write, or ""
	Out    io.Writer
	Err    io.Writer // gets the list of the bundle's files with JSON

	now func() time.Time // nil: time.Now
}

// AddFlag adds the flag --bundle.
func (r *Report) AddFlag(f *pflag.FlagSet) {
	f.StringVar(&r.Bundle, "bundle", "", "also write a new `FILE` (tar.gz) to send with a report: findings, versions,\nsettings, log and state, without data and secrets")
}

// Run prints the findings of examine. If r has a Bundle, Run writes an archive with the findings
// and files to it, and lists them.
func (r *Report) Run(ctx context.Context, examine func(context.Context) []Finding, files func() []BundleFile) error {
	if r.Bundle == "" {
		list := examine(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return Print(r.Out, list, r.JSON)
	}
	f, err := os.OpenFile(r.Bundle, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already: remove it, or give --bundle another name", r.Bundle)
	}
	if err != nil {
		return err
	}
	list := examine(ctx)
	var failed error
	if ctx.Err() == nil {
		failed = Print(r.Out, list, r.JSON)
		err = r.writeBundle(ctx, f, append([]BundleFile{findingsFile(list)}, files()...))
	}
	if err = errors.Join(err, f.Close(), context.Cause(ctx)); err != nil {
		return errors.Join(fmt.Errorf("%s was not written: %w", r.Bundle, err), os.Remove(r.Bundle))
	}
	return failed
}

// findingsFile is what doctor prints.
func findingsFile(list []Finding) BundleFile {
	return BundleFile{Name: "doctor.txt", About: "these findings", Read: func(context.Context) ([]byte, error) {
		var b bytes.Buffer
		err := printText(&b, list)
		return b.Bytes(), err
	}}
}

// writeBundle writes the archive and its list. A file that cannot be read contains the error.
func (r *Report) writeBundle(ctx context.Context, f io.Writer, files []BundleFile) error {
	now := time.Now
	if r.now != nil {
		now = r.now
	}
	w := r.Out
	if r.JSON {
		w = r.Err
	}
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	listing := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s contains:\n", r.Bundle)
	for _, one := range files {
		content, err := one.Read(ctx)
		if err != nil {
			content = []byte("not available: " + err.Error() + "\n")
		}
		content = limitText(redact(one.Kind, limitText(content, maxBundleFile+maxSecret)), maxBundleFile)
		h := tar.Header{Name: "nfsrdma-doctor/" + one.Name, Mode: 0o600, Size: int64(len(content)), ModTime: now().Truncate(time.Second)}
		if err := archive.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
		about := one.About
		if err != nil {
			about += " (not available)"
		}
		fmt.Fprintf(listing, "  %s\t%d bytes\t%s\n", one.Name, len(content), about)
	}
	if err := errors.Join(archive.Close(), zip.Close(), listing.Flush()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `File data, keys, tickets, passwords and the comments of settings are left out. Names of hosts,
users, exports and files are in it: look before you send it, with tar -xOzf %s | less
`, r.Bundle)
	return err
}

// limitText returns the last n bytes of text, from the beginning of a line on.
func limitText(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	_, text, _ = bytes.Cut(text, []byte("\n"))
	return text
}
