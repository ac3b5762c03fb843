package krb5

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// TestNFold compares with the test cases of RFC 3961, Appendix A.1.
func TestNFold(t *testing.T) {
	for _, tt := range []struct {
		size     int // in bits
		in, want string
	}{
		{64, "012345", "be072631276b1955"},
		{56, "password", "78a07b6caf85fa"},
		{64, "Rough Consensus, and Running Code", "bb6ed30870b7f0e0"},
		{168, "password", "59e4a8ca7c0385c3c37b3f6d2000247cb6e6bd5b3e"},
		{192, "MASSACHVSETTS INSTITVTE OF TECHNOLOGY", "db3b0d8f0b061e603282b308a50841229ad798fab9540c1b"},
		{168, "Q", "518a54a215a8452a518a54a215a8452a518a54a215"},
		{168, "ba", "fb25d531ae8974499f52fd92ea9857c4ba24cf297e"},
		{64, "kerberos", "6b65726265726f73"},
		{128, "kerberos", "6b65726265726f737b9b5b2b93132b93"},
		{168, "kerberos", "8372c236344e5f1550cd0747e15d62ca7a5a3bcea4"},
		{256, "kerberos", "6b65726265726f737b9b5b2b93132b935c9bdcdad95c9899c4cae4dee6d6cae4"},
	} {
		assert.Equal(t, tt.want, hex.EncodeToString(nfold([]byte(tt.in), tt.size/8)), "%d-fold of %s", tt.size, tt.in)
	}
}

// TestDeriveByAES compares with the keys of RFC 3962, Appendix B: each is DK of
// the output of PBKDF2 and "kerberos" (R4121-E-1, R4121-E-4).
func TestDeriveByAES(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"cd ed b5 28 1b b2 f8 01 56 5a 11 22 b2 56 35 15", "42 26 3c 6e 89 f4 fc 28 b8 df 68 ee 09 79 9f 15"},
		{"01 db ee 7f 4a 9e 24 3e 98 8b 62 c7 3c da 93 5d", "c6 51 bf 29 e2 30 0a c2 7f a4 69 d6 93 bd da 13"},
		{"5c 08 eb 61 fd f7 1e 4e 4e c3 cf 6b a1 f5 51 2b", "4c 01 cd 46 d6 32 d0 1e 6d be 23 0a 01 ed 64 2a"},
		{"d1 da a7 86 15 f2 87 e6 a1 c8 b1 20 d7 06 2a 49", "e9 b2 3d 52 27 37 47 dd 5c 35 cb 55 be 61 9d 8e"},
		{"13 9c 30 c0 96 6b c3 2b a5 5f db f2 12 53 0a c9", "59 d1 bb 78 9a 82 8b 1a a5 4e f9 c2 88 3f 69 ed"},
		{"9c ca d6 d4 68 77 0c d5 1b 10 e6 a6 87 21 be 61", "cb 80 05 dc 5f 90 17 9a 7f 02 10 4c 00 18 75 1d"},
		{"6b 9c f2 6d 45 45 5a 43 a5 b8 bb 27 6a 40 3b 39", "f1 49 c1 f2 e1 54 a7 34 52 d4 3e 7f e6 2a 56 e5"},
		{
			"cd ed b5 28 1b b2 f8 01 56 5a 11 22 b2 56 35 15 0a d1 f7 a0 4b b9 f3 a3 33 ec c0 e2 e1 f7 08 37",
			"fe 69 7b 52 bc 0d 3c e1 44 32 ba 03 6a 92 e6 5b bb 52 28 09 90 a2 fa 27 88 39 98 d7 2a f3 01 61",
		},
		{
			"01 db ee 7f 4a 9e 24 3e 98 8b 62 c7 3c da 93 5d a0 53 78 b9 32 44 ec 8f 48 a9 9e 61 ad 79 9d 86",
			"a2 e1 6d 16 b3 60 69 c1 35 d5 e9 d2 e2 5f 89 61 02 68 56 18 b9 59 14 b4 67 c6 76 22 22 58 24 ff",
		},
		{
			"5c 08 eb 61 fd f7 1e 4e 4e c3 cf 6b a1 f5 51 2b a7 e5 2d db c5 e5 14 2f 70 8a 31 e2 e6 2b 1e 13",
			"55 a6 ac 74 0a d1 7b 48 46 94 10 51 e1 e8 b0 a7 54 8d 93 b0 ab 30 a8 bc 3f f1 62 80 38 2b 8c 2a",
		},
		{
			"d1 da a7 86 15 f2 87 e6 a1 c8 b1 20 d7 06 2a 49 3f 98 d2 03 e6 be 49 a6 ad f4 fa 57 4b 6e 64 ee",
			"97 a4 e7 86 be 20 d8 1a 38 2d 5e bc 96 d5 90 9c ab cd ad c8 7c a4 8f 57 45 04 15 9f 16 c3 6e 31",
		},
		{
			"13 9c 30 c0 96 6b c3 2b a5 5f db f2 12 53 0a c9 c5 ec 59 f1 a4 52 f5 cc 9a d9 40 fe a0 59 8e d1",
			"89 ad ee 36 08 db 8b c7 1f 1b fb fe 45 94 86 b0 56 18 b7 0c ba e2 20 92 53 4e 56 c5 53 ba 4b 34",
		},
		{
			"9c ca d6 d4 68 77 0c d5 1b 10 e6 a6 87 21 be 61 1a 8b 4d 28 26 01 db 3b 36 be 92 46 91 5e c8 2a",
			"d7 8c 5c 9c b8 72 a8 c9 da d4 69 7f 0b b5 b2 d2 14 96 c8 2b eb 2c ae da 21 12 fc ee a0 57 40 1b",
		},
		{
			"6b 9c f2 6d 45 45 5a 43 a5 b8 bb 27 6a 40 3b 39 e7 fe 37 a0 c4 1e 02 c2 81 ff 30 69 e1 e9 4f 52",
			"4b 6d 98 39 f8 44 06 df 1f 09 cc 16 6d b4 b8 3c 57 18 48 b7 84 a3 d6 bd c3 46 58 9a 3e 39 3f 9e",
		},
	} {
		key := wiretest.Bytes(t, tt.key)
		assert.Equal(t, wiretest.Bytes(t, tt.want), deriveByAES(key, []byte("kerberos"), len(key)), tt.key)
	}
}

// The base keys of RFC 8009, Appendix A.
const (
	rfc8009Key19 = "3705d96080c17728a0e800eab6e0d23c"
	rfc8009Key20 = "6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52"
)

// TestDeriveByHMAC compares with the keys of RFC 8009, Appendix A, for usage 2
// (R4121-E-2, R4121-E-4).
func TestDeriveByHMAC(t *testing.T) {
	for _, tt := range []struct {
		enctype    Enctype
		key        string
		kc, ke, ki string
	}{
		{AES128SHA256, rfc8009Key19, "b31a018a48f54776f403e9a396325dc3", "9b197dd1e8c5609d6e67c3e37c62c72e", "9fda0e56ab2d85e1569a688696c26a6c"},
		{
			AES256SHA384, rfc8009Key20, "ef5718be86cc84963d8bbb5031e9f5c4ba41f28faf69e73d",
			"56ab22bee63d82d7bc5227f6773f8ea7a5eb1c825160c38312980c442e5c7e49", "69b16514e3cd8e56b82010d5c73012b622c4d00ffc23ed1f",
		},
	} {
		key := Key{tt.enctype, wiretest.Bytes(t, tt.key)}
		p := profiles[tt.enctype]
		assert.Equal(t, tt.kc, hex.EncodeToString(key.deriveKey(2, forChecksum, p.macKeySize)))
		assert.Equal(t, tt.ke, hex.EncodeToString(key.deriveKey(2, forEncryption, p.keySize)))
		assert.Equal(t, tt.ki, hex.EncodeToString(key.deriveKey(2, forIntegrity, p.macKeySize)))
	}
}
