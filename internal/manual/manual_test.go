package manual

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	const help = `Serve it. Then
'quote' the -o.

    mount -o rdma a:/b /mnt

  ro, rw
        read only
  a,
    b
        both
`
	assert.Equal(t, `Serve it.
Then \(aqquote\(aq the \-o.
.PP
.RS 4
.EX
mount \-o rdma a:/b /mnt
.EE
.RE
.TP
\fBro, rw\fR
read only
.TP
\fBa, b\fR
both
`, Text(help))
	assert.Equal(t, "\\&.hidden\n", Text(".hidden"))
}

func TestFlags(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringP("options", "o", "", "mount: options, a `LIST` with commas")
	f.Bool("ro", false, "refuse\nchanges")
	f.Int("help", 0, "")
	assert.Equal(t, `.TP
\fB\-o\fR, \fB\-\-options\fR \fILIST\fR
mount: options, a LIST with commas
.TP
\fB\-\-ro\fR
refuse changes
`, Flags(f))
}

func TestCheck(t *testing.T) {
	page := filepath.Join(t.TempDir(), "x.8")
	const text = "above\n.\\\" from the help: flags\nold\n.\\\" end of flags\nbelow\n"
	require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	assert.NoError(t, Check(page, map[string]string{"flags": "old\n"}, false))
	assert.ErrorContains(t, Check(page, map[string]string{"flags": "new\n"}, false), "differs from the help")
	assert.ErrorContains(t, Check(page, map[string]string{"other": "new\n"}, false), "no help has a part")
	assert.ErrorContains(t, Check(page, map[string]string{"flags": "old\n", "other": ""}, false), "other")
	assert.NoError(t, Check(page, map[string]string{"flags": "new\n"}, true))
	assert.NoError(t, Check(page, map[string]string{"flags": "new\n"}, false))
	written, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, "above\n.\\\" from the help: flags\nnew\n.\\\" end of flags\nbelow\n", string(written))
}
