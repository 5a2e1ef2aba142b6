export type Speech = import("./speech.js").Speech;
export declare class Socket {
    #private;
    /**
     * @param {(speaker: string) => URL} address with the key of the moment, for the speech that opens the connection
     * @param {typeof WebSocket} webSocket
     * @param {() => Promise<Error>} reason why the server took no connection: a browser does not tell
     */
    constructor(address: (speaker: string) => URL, webSocket: typeof WebSocket, reason: () => Promise<Error>);
    get isOpen(): boolean;
    /**
     * Connect if need be; return the name of a new context, whose messages the speech will receive.
     * @param {Speech} speech
     * @param {string} speaker its own
     */
    openContext(speech: Speech, speaker: string): Promise<string>;
    /**
     * Where the connection is lost nothing is sent; each speech hears of that by itself.
     * @param {object} message
     */
    send(message: object): void;
    close(): void;
}
