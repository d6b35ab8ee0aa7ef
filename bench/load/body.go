package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// vocabulary is what prompts are made of: ordinary words of ordinary lengths.
const vocabulary = `the of and to in a is that for it as was with be by on not he this are or his from at which but have an had they you were their one all
we can her has there been if more when will would who so no said what up its about into than them other some could time these two may then do first any my now such like our over man me even most made after also
did many before must through back years where much your way well down should because each just those people how too little state good very make world still own see men work long get here between both life being
under never day same another know while last might us great old year off come since against go came right used take three themselves use house both place water without again number part school small general however
budget tokens request reserve provider answer stream limit gateway measurement latency throughput configuration infrastructure responsibility understanding international communication`

// body is a chat request of about size bytes. The same size gives the same
// bytes.
func body(model string, size int, stream bool) []byte {
	head := fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":256,"messages":[{"role":"system","content":"You are a careful assistant."},{"role":"user","content":"`, model, stream)
	const tail = `"}]}`
	words := strings.Fields(vocabulary)
	source := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString(head)
	for n := 1; b.Len() < size-len(tail); n++ {
		b.WriteString(words[source.IntN(len(words))])
		switch {
		case n%12 == 0:
			b.WriteString(". ")
		case n%31 == 0:
			fmt.Fprintf(&b, ", %d ", source.IntN(10000))
		default:
			b.WriteByte(' ')
		}
	}
	b.WriteString(tail)
	return []byte(b.String())
}
