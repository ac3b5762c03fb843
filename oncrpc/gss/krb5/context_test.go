package krb5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

var enctypes = []Enctype{AES128SHA1, AES256SHA1, AES128SHA256, AES256SHA384}

// newContextPair returns both ends of a context.
func newContextPair(t testing.TB, e Enctype, acceptorSubkey bool) (initiator, acceptor *Context) {
	t.Helper()
	value := make([]byte, profiles[e].keySize)
	for i := range value {
		value[i] = byte(i)*7 + byte(e)
	}
	end := time.Unix(1_800_000_000, 0)
	var err error
	initiator, err = NewContext(Establishment{Key: Key{e, value}, AcceptorSubkey: acceptorSubkey, Sequence: 100, Expires: end})
	require.NoError(t, err)
	acceptor, err = NewContext(Establishment{Key: Key{e, value}, AcceptorSubkey: acceptorSubkey, Acceptor: true, Sequence: 1<<32 - 1, Expires: end})
	require.NoError(t, err)
	return initiator, acceptor
}

// wrapMessage returns a token of message, contiguous.
func wrapMessage(t testing.TB, c *Context, message []byte) []byte {
	t.Helper()
	before, after := c.WrapOverhead()
	token := make([]byte, before+len(message)+after)
	copy(token[before:], message)
	require.NoError(t, c.Wrap(token[:before], [][]byte{token[before : len(token)-after]}, token[len(token)-after:]))
	return token
}

// unwrapToken returns the message of token, in new memory.
func unwrapToken(c *Context, token []byte) ([]byte, error) {
	message, err := c.Unwrap([][]byte{slices.Clone(token)})
	return bytes.Join(message, nil), err
}

func newMIC(t testing.TB, c *Context, message []byte) []byte {
	t.Helper()
	token, err := c.AppendMIC(nil, [][]byte{message})
	require.NoError(t, err)
	return token
}

// TestContext passes tokens both ways, for each encryption type, with the
// acceptor's subkey and without (R4121-2-1, R4121-2-2), and looks at the sizes.
func TestContext(t *testing.T) {
	sizes := map[Enctype]struct{ mic, wrap int }{AES128SHA1: {28, 60}, AES256SHA1: {28, 60}, AES128SHA256: {32, 64}, AES256SHA384: {40, 72}}
	for _, e := range enctypes {
		for _, subkey := range []bool{false, true} {
			initiator, acceptor := newContextPair(t, e, subkey)
			for _, ends := range [][2]*Context{{initiator, acceptor}, {acceptor, initiator}} {
				from, to := ends[0], ends[1]
				for _, message := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("a line of text\n"), 700)} {
					assert.NoError(t, to.VerifyMIC(newMIC(t, from, message), [][]byte{message}))
					assert.Len(t, newMIC(t, from, message), from.MICSize())
					token := wrapMessage(t, from, message)
					assert.Len(t, token, len(message)+sizes[e].wrap)
					if len(message) > 15 {
						assert.NotContains(t, string(token), string(message[:15]))
					}
					got, err := unwrapToken(to, token)
					require.NoError(t, err)
					assert.Equal(t, string(message), string(got))
				}
			}
			assert.Equal(t, sizes[e].mic, initiator.MICSize())
			assert.Equal(t, "krb5 "+e.String(), acceptor.Mechanism())
			assert.Equal(t, time.Unix(1_800_000_000, 0), acceptor.Expires())
		}
	}
	_, err := NewContext(Establishment{Key: Key{23, make([]byte, 16)}})
	assert.ErrorContains(t, err, "encryption type 23")
}

// TestHeaders looks at the clear headers of tokens: the forms of RFC 4121,
// Sections 4.2.6.1 and 4.2.6.2 (R4121-4.2.6.1-1, R4121-4.2.6.2-1), with an extra
// count and rotation of 0 (R4121-4.2.3-1, R4121-4.2.5-1), and a sequence number
// of 64 bits that counts both kinds (R4121-4.2.1-1).
func TestHeaders(t *testing.T) {
	initiator, acceptor := newContextPair(t, AES256SHA1, true)
	plain, _ := newContextPair(t, AES256SHA1, false)
	assert.Equal(t, "0404 04 ffffffffff 0000000000000064", formatHeader(newMIC(t, initiator, nil)))
	assert.Equal(t, "0504 06 ff00000000 0000000000000065", formatHeader(wrapMessage(t, initiator, nil)))
	assert.Equal(t, "0404 05 ffffffffff 00000000ffffffff", formatHeader(newMIC(t, acceptor, nil)))
	assert.Equal(t, "0504 07 ff00000000 0000000100000000", formatHeader(wrapMessage(t, acceptor, nil)))
	assert.Equal(t, "0504 02 ff00000000 0000000000000064", formatHeader(wrapMessage(t, plain, nil)))
	assert.Equal(t, "0404 00 ffffffffff 0000000000000065", formatHeader(newMIC(t, plain, nil)))
}

func formatHeader(token []byte) string {
	return fmt.Sprintf("%x %x %x %x", token[:2], token[2:3], token[3:8], token[8:16])
}

// TestSequenceNotChecked sends each token twice, and the later one first
// (R4121-4.2.1-1).
func TestSequenceNotChecked(t *testing.T) {
	initiator, acceptor := newContextPair(t, AES128SHA1, true)
	first, second := wrapMessage(t, initiator, []byte("a")), wrapMessage(t, initiator, []byte("b"))
	for _, token := range [][]byte{second, first, first} {
		_, err := unwrapToken(acceptor, token)
		assert.NoError(t, err)
	}
	token := newMIC(t, initiator, nil)
	assert.NoError(t, acceptor.VerifyMIC(token, nil))
	assert.NoError(t, acceptor.VerifyMIC(token, nil))
}

// TestSequenceOnce checks that goroutines never share a sequence number.
func TestSequenceOnce(t *testing.T) {
	initiator, _ := newContextPair(t, AES128SHA1, true)
	var all sync.Map
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				_, met := all.LoadOrStore(binary.BigEndian.Uint64(newMIC(t, initiator, nil)[8:]), true)
				assert.False(t, met)
				_, met = all.LoadOrStore(binary.BigEndian.Uint64(wrapMessage(t, initiator, nil)[8:]), true)
				assert.False(t, met)
			}
		})
	}
	wg.Wait()
}

// TestScattered wraps and opens messages in random slices, and compares what the
// result aliases.
func TestScattered(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(t, e, true)
		before, after := initiator.WrapOverhead()
		for size := range 200 {
			message := make([]byte, size)
			fillRandom(r, message)
			token := make([]byte, before+size+after)
			copy(token[before:], message)
			require.NoError(t, initiator.Wrap(token[:before], scatterBytes(r, token[before:before+size], 1+r.IntN(6)), token[before+size:]))
			list := scatterBytes(r, token, 1+r.IntN(7))
			got, err := acceptor.Unwrap(list)
			require.NoError(t, err)
			require.Equal(t, string(message), string(bytes.Join(got, nil)))
			require.Equal(t, string(message), string(token[before:before+size]), "in place")
			if size > 0 {
				require.Same(t, &list[0], &got[0], "the list's own elements")
			}
			made, err := acceptor.AppendMIC([]byte("kept"), scatterBytes(r, message, 1+r.IntN(4)))
			require.NoError(t, err)
			require.Equal(t, "kept", string(made[:4]))
			require.NoError(t, initiator.VerifyMIC(made[4:], scatterBytes(r, message, 1+r.IntN(4))))
		}
	}
}

// TestWrongHeaders changes what a receiver must check in a header (R4121-4.2.2-1,
// R4121-4.2.6.1-1, R4121-4.2.6.2-1): each token has a right MAC.
func TestWrongHeaders(t *testing.T) {
	_, acceptor := newContextPair(t, AES256SHA1, true)
	for _, tt := range []struct {
		name  string
		flags byte
		id    uint16 // the token's identifier, if not 0
		at    int    // a byte of the header that is changed to 0, if not 0
		want  *gss.Error
	}{
		{"right", flagAcceptorSubkey, 0, 0, nil},
		{"unknown flags", flagAcceptorSubkey | 0xf8, 0, 0, nil}, // R4121-4.2.2-1
		{"its own direction", flagAcceptorSubkey | flagSentByAcceptor, 0, 0, errDirection},
		{"no acceptor's subkey", 0, 0, 0, errSubkey},
		{"the other kind", flagAcceptorSubkey, 0x0405, 0, errTokenID},
		{"RFC 1964", flagAcceptorSubkey, 0x0101, 0, errTokenID},
		{"framed", flagAcceptorSubkey, 0x6028, 0, errFramed}, // R4121-4.4-1
		{"filler", flagAcceptorSubkey, 0, 3, errFiller},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				if tt.want == nil {
					assert.NoError(t, err)
				} else {
					assert.Same(t, tt.want, err)
				}
			}
			for _, sealed := range []bool{false, true} {
				forger, _ := newContextPair(t, AES256SHA1, true)
				token := forgeToken(forger, sealed, tt.flags, func(h []byte) {
					if tt.id != 0 {
						binary.BigEndian.PutUint16(h, tt.id)
					}
					if tt.at > 0 {
						h[tt.at] = 0
					}
				})
				if sealed {
					_, err := acceptor.Unwrap([][]byte{token})
					check(err)
				} else {
					check(acceptor.VerifyMIC(token, nil))
				}
			}
		})
	}
	forger, _ := newContextPair(t, AES256SHA1, true)
	assert.Same(t, errSealed, acceptor.VerifyMIC(forgeToken(forger, false, flagAcceptorSubkey|flagSealed, func([]byte) {}), nil))
	for at := 4; at < 8; at++ {
		assert.Same(t, errFiller, acceptor.VerifyMIC(forgeToken(forger, false, flagAcceptorSubkey, func(h []byte) { h[at] = 0 }), nil))
	}
	_, plain := newContextPair(t, AES256SHA1, false)
	assert.Same(t, errSubkey, plain.VerifyMIC(forgeToken(forger, false, flagAcceptorSubkey, func([]byte) {}), nil))
}

// forgeToken makes a token of the empty message with a right MAC and any header.
func forgeToken(c *Context, sealed bool, flags byte, change func(header []byte)) []byte {
	if !sealed {
		token := make([]byte, headerSize)
		putHeader(token, idMIC, flags, 1)
		change(token)
		h := c.signing.getHash()
		h.Write(token)
		return c.signing.appendSum(token, h)
	}
	before, after := c.WrapOverhead()
	token := make([]byte, before+after)
	putHeader(token, idWrap, flags|flagSealed, 1)
	change(token[:headerSize])
	copy(token[before:], token[:headerSize])
	c.sealing.seal([][]byte{token[headerSize : before+headerSize]}, token[before+headerSize:])
	return token
}

// TestReflection sends tokens back to the end that made them (R4121-4.2.2-2).
func TestReflection(t *testing.T) {
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(t, e, true)
		for _, c := range []*Context{initiator, acceptor} {
			assert.Same(t, errDirection, c.VerifyMIC(newMIC(t, c, nil), nil))
			_, err := unwrapToken(c, wrapMessage(t, c, nil))
			assert.Same(t, errDirection, err)
		}
	}
}

// TestUnsealed hands over a Wrap token without confidentiality, which is refused
// (R4121-4.2.4-4).
func TestUnsealed(t *testing.T) {
	initiator, acceptor := newContextPair(t, AES256SHA1, true)
	h := initiator.sealing.integrity.getHash() // any MAC: the flag decides before it
	h.Write([]byte("in the clear, and long enough to be a token"))
	token := make([]byte, headerSize)
	putHeader(token, idWrap, flagAcceptorSubkey, 1)
	token = append(token, "in the clear, and long enough to be a token"...)
	token = initiator.sealing.integrity.appendSum(token, h)
	binary.BigEndian.PutUint16(token[4:], 12)
	_, err := acceptor.Unwrap([][]byte{token})
	assert.Same(t, errSealed, err)
}

// TestRotation takes tokens that the sender has rotated by any count, also one
// over the token's length (R4121-4.2.5-1).
func TestRotation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	message := bytes.Repeat([]byte("rotated"), 30)
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(t, e, true)
		token := wrapMessage(t, initiator, message)
		body := len(token) - headerSize
		for _, count := range []int{0, 1, 12, 16, 28, 44, body - 1, body, body + 1, 1000, 65535} {
			turned := rotateRight(token, count)
			for range 3 {
				got, err := acceptor.Unwrap(scatterBytes(r, slices.Clone(turned), 1+r.IntN(7)))
				require.NoError(t, err, count)
				require.Equal(t, string(message), string(bytes.Join(got, nil)))
			}
		}
	}
}

// rotateRight is a sender's rotation (RFC 4121, Section 4.2.5).
func rotateRight(token []byte, count int) []byte {
	out := slices.Clone(token[:headerSize])
	binary.BigEndian.PutUint16(out[6:], uint16(count))
	body := token[headerSize:]
	n := len(body) - count%len(body)
	return append(append(out, body[n:]...), body[:n]...)
}

// TestExtraCount takes tokens with filler between message and header, and
// refuses a count that is larger than what was decrypted (R4121-4.2.3-1,
// R4121-4.2.4-1).
func TestExtraCount(t *testing.T) {
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(t, e, true)
		for _, count := range []int{0, 1, 15, 16, 40, 65535} {
			token := withFiller(initiator, []byte("message"), count, count)
			got, err := unwrapToken(acceptor, token)
			require.NoError(t, err)
			assert.Equal(t, "message", string(got))
		}
		got, err := unwrapToken(acceptor, withFiller(initiator, []byte("message"), 0, 7))
		require.NoError(t, err)
		assert.Empty(t, got, "the filler is all")
		for _, count := range []int{8, 16, 23, 24, 65535} {
			_, err := unwrapToken(acceptor, withFiller(initiator, []byte("message"), 0, count))
			assert.Same(t, errExtraCount, err, count)
		}
	}
}

// withFiller makes a token with bytes of filler, of which the header claims
// count.
func withFiller(c *Context, message []byte, filler, count int) []byte {
	var h [headerSize]byte
	putHeader(h[:], idWrap, c.sendFlags|flagSealed, c.nextSequence())
	binary.BigEndian.PutUint16(h[4:], uint16(count))
	text := append(make([]byte, confounderSize), message...)
	text = append(text, bytes.Repeat([]byte{'f'}, filler)...)
	text = append(text, h[:]...)
	mac := make([]byte, c.sealing.integrity.size)
	c.sealing.seal([][]byte{text}, mac)
	return append(append(h[:], text...), mac...)
}

// TestInnerHeader changes the clear header of a token alone: flags that a
// receiver ignores, extra count and sequence number (R4121-4.2.4-2).
func TestInnerHeader(t *testing.T) {
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(t, e, true)
		message := bytes.Repeat([]byte("m"), 300)
		for _, at := range []int{2, 4, 5, 8, 15} {
			token := wrapMessage(t, initiator, message)
			token[at] ^= 0x80
			if at == 4 {
				token[at] = 1 // 256 bytes
			}
			_, err := acceptor.Unwrap([][]byte{token})
			assert.Same(t, errInner, err, at)
			assert.Equal(t, make([]byte, len(message)), token[wrapPrefix:wrapPrefix+len(message)], "cleared")
		}
	}
}

// TestChanged cuts tokens and changes each of their bits: all are refused, and
// leave nothing of the message (R4121-E-5).
func TestChanged(t *testing.T) {
	message := []byte("a message of more than two blocks of the cipher")
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(t, e, true)
		signed, sealed := newMIC(t, initiator, message), wrapMessage(t, initiator, message)
		refused := func(token []byte) {
			t.Helper()
			copied := slices.Clone(token)
			_, err := acceptor.Unwrap([][]byte{copied[:len(copied)/2], copied[len(copied)/2:]})
			var ge *gss.Error
			require.ErrorAs(t, err, &ge)
			require.Contains(t, []gss.Major{gss.BadMIC, gss.DefectiveToken}, ge.Major)
			for n := range len(message) - 4 {
				require.NotContains(t, string(copied), string(message[n:n+4]))
			}
		}
		for bit := range len(sealed) * 8 {
			if byteAt := bit / 8; byteAt == 2 && bit%8 > 2 {
				continue // ignored flags: TestInnerHeader
			} else if byteAt == 6 || byteAt == 7 {
				continue // the rotation: TestRotation
			}
			sealed[bit/8] ^= 1 << (bit % 8)
			refused(sealed)
			sealed[bit/8] ^= 1 << (bit % 8)
		}
		for n := range sealed {
			refused(sealed[:n])
		}
		refused(append(slices.Clone(sealed), 0))
		for bit := range len(signed) * 8 {
			signed[bit/8] ^= 1 << (bit % 8)
			require.Error(t, acceptor.VerifyMIC(signed, [][]byte{message}))
			signed[bit/8] ^= 1 << (bit % 8)
		}
		for n := range signed {
			require.Error(t, acceptor.VerifyMIC(signed[:n], [][]byte{message}))
		}
		require.Error(t, acceptor.VerifyMIC(append(slices.Clone(signed), 0), [][]byte{message}))
		require.Same(t, errMIC, acceptor.VerifyMIC(signed, [][]byte{message[1:]}))
		require.NoError(t, acceptor.VerifyMIC(signed, [][]byte{message}))
	}
}

// TestNoKeysPrinted checks that no format prints a context's keys.
func TestNoKeysPrinted(t *testing.T) {
	c, _ := newContextPair(t, AES256SHA1, true)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		assert.Equal(t, "krb5 aes256-cts-hmac-sha1-96", fmt.Sprintf(format, c))
		assert.Less(t, len(fmt.Sprintf(format, gss.Accepted{Context: c})), 200)
	}
}

// TestRoom checks that wrong room is an error, and sends nothing unencrypted.
func TestRoom(t *testing.T) {
	initiator, _ := newContextPair(t, AES256SHA1, true)
	before, after := initiator.WrapOverhead()
	for _, sizes := range [][2]int{{before - 1, after}, {before, after + 1}, {0, 0}} {
		err := initiator.Wrap(make([]byte, sizes[0]), nil, make([]byte, sizes[1]))
		var ge *gss.Error
		require.True(t, errors.As(err, &ge))
		assert.Equal(t, gss.Failure, ge.Major)
	}
}

// TestConfounders checks that equal messages have unequal tokens.
func TestConfounders(t *testing.T) {
	initiator, _ := newContextPair(t, AES256SHA1, true)
	met := make(map[string]bool)
	for range 100 {
		token := wrapMessage(t, initiator, []byte("the same"))
		first := string(token[headerSize : headerSize+blockSize])
		assert.False(t, met[first])
		met[first] = true
	}
}

// TestLargeMessages passes messages of RPC's largest sizes (R4121-5.2-1).
func TestLargeMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	message := make([]byte, 1<<20+4096)
	fillRandom(r, message)
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(t, e, true)
		got, err := unwrapToken(acceptor, wrapMessage(t, initiator, message))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(message, got))
		assert.NoError(t, acceptor.VerifyMIC(newMIC(t, initiator, message), [][]byte{message}))
	}
}

// TestNoAllocation checks that the messages of an established context make no
// garbage, and that forged ones make none either.
func TestNoAllocation(t *testing.T) {
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(t, e, true)
		before, after := initiator.WrapOverhead()
		token := make([]byte, before+4000+after)
		message := [][]byte{token[before : before+13], token[before+13 : before+4000]}
		whole := make([][]byte, 1)
		signed := make([]byte, 0, initiator.MICSize())
		for name, f := range map[string]func() error{
			"MIC": func() (err error) { signed, err = initiator.AppendMIC(signed[:0], message); return err },
			"VerifyMIC": func() error {
				signed, _ = initiator.AppendMIC(signed[:0], message)
				return acceptor.VerifyMIC(signed, message)
			},
			"Wrap": func() error { return initiator.Wrap(token[:before], message, token[before+4000:]) },
			"Unwrap": func() error {
				if err := initiator.Wrap(token[:before], message, token[before+4000:]); err != nil {
					return err
				}
				whole = append(whole[:0], token)
				_, err := acceptor.Unwrap(whole)
				return err
			},
			"forged": func() error {
				whole = append(whole[:0], token)
				if _, err := initiator.Unwrap(whole); err == nil {
					return errors.New("believed")
				}
				return nil
			},
		} {
			assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { require.NoError(t, f()) }), racetest.PoolLosses(20), "%v %s", e, name)
		}
	}
}

// FuzzTokens hands any bytes over as a token, cut anywhere: no panic, and none is
// believed but the seeds themselves.
func FuzzTokens(f *testing.F) {
	initiator, acceptor := newContextPair(f, AES256SHA1, true)
	message := []byte("message")
	sealed, signed := wrapMessage(f, initiator, message), newMIC(f, initiator, message)
	for _, token := range [][]byte{sealed, rotateRight(sealed, 28), withFiller(initiator, message, 16, 16), signed} {
		f.Add(token, 5)
	}
	f.Fuzz(func(t *testing.T, token []byte, cut int) {
		if cut < 0 || cut > len(token) {
			return
		}
		if err := acceptor.VerifyMIC(token, [][]byte{message[:3], message[3:]}); err == nil {
			require.Len(t, token, acceptor.MICSize())
		}
		copied := slices.Clone(token)
		got, err := acceptor.Unwrap([][]byte{copied[:cut], copied[cut:]})
		if err == nil {
			require.Equal(t, string(message), string(bytes.Join(got, nil)))
		} else {
			require.Empty(t, got)
		}
	})
}

var contextMessages = []int{128, 1 << 20}

// BenchmarkContext measures the tokens, and for comparison HMAC and CBC on the same
// bytes.
func BenchmarkContext(b *testing.B) {
	for _, e := range enctypes {
		initiator, acceptor := newContextPair(b, e, true)
		before, after := initiator.WrapOverhead()
		for _, size := range contextMessages {
			token := make([]byte, before+size+after)
			message := [][]byte{token[before : before+size]}
			signed := make([]byte, 0, initiator.MICSize())
			whole := make([][]byte, 1)
			run := func(name string, f func()) {
				b.Run(fmt.Sprintf("%d/%d/%s", e, size, name), func(b *testing.B) {
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						f()
					}
				})
			}
			run("MIC", func() { signed, _ = initiator.AppendMIC(signed[:0], message) })
			run("VerifyMIC", func() { acceptor.VerifyMIC(signed, message) })
			run("Wrap", func() { initiator.Wrap(token[:before], message, token[before+size:]) })
			kept := slices.Clone(token)
			run("Unwrap", func() {
				copy(token, kept)
				whole = append(whole[:0], token)
				if _, err := acceptor.Unwrap(whole); err != nil {
					b.Fatal(err)
				}
			})
			run("HMAC", func() {
				h := initiator.signing.getHash()
				h.writeAll(message)
				signed = initiator.signing.appendSum(signed[:0], h)
			})
			run("encrypt", func() {
				c := initiator.sealing.cts.getChain()
				c.mode.CryptBlocks(message[0], message[0])
				initiator.sealing.cts.chains.Put(c)
			})
			run("decrypt", func() {
				c := acceptor.opening.cts.getChain()
				c.mode.CryptBlocks(message[0], message[0])
				acceptor.opening.cts.chains.Put(c)
			})
		}
	}
}
